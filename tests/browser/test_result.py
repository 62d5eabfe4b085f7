"""Results in a real browser: tabs, pictures, both themes, a phone, no script, and that nothing stored there runs."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from langlauf.clock import new_id
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live, live
from tests.support.view_samples import showing_app


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose results have views, hostile ones among them."""
    with live(tmp_path_factory.mktemp("results"), showing_app()) as running:
        yield running


@pytest.fixture(scope="module")
def address(site: Live) -> str:
    """A result with one view of each kind."""
    job = site.wait(site.submit("shown", place="Zürich, Kreis 4")["job_id"])
    return f"/results/{job['result_id']}"


def test_panels_are_tabs_for_the_keyboard(page: Page, address: str) -> None:
    """Arrows, Home and End choose; the address remembers, and a link of that address opens there."""
    page.goto(address)
    first, second = page.get_by_role("tab", name="Cities"), page.get_by_role("tab", name="Levels", exact=True)
    expect(first).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_count(1)
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(second).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Levels")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="JSON")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowLeft")
    assert page.url.endswith("#panel-json")
    page.keyboard.press("Home")
    page.get_by_role("tab", name="Where").click()
    assert page.url.endswith("#panel-map-3")
    page.reload()
    expect(page.get_by_role("tabpanel", name="Where")).to_be_visible()
    page.go_back()
    page.goto(f"{address}#panel-json")
    expect(page.get_by_role("tabpanel", name="JSON")).to_be_visible()


def test_tabs_do_not_move_the_page(page: Page, address: str) -> None:
    """Nothing shifts from the first look until all scripts and pictures are there."""
    page.add_init_script(
        "window.shifted = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) "
        "window.shifted += one.value; }).observe({ type: 'layout-shift', buffered: true });"
    )
    page.goto(f"{address}#panel-chart-2")
    page.wait_for_load_state("networkidle")
    expect(page.locator("#panel-chart-2 img")).to_be_visible()
    assert page.evaluate("window.shifted") < 0.02


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_chart_is_a_picture_of_the_theme(tab: OpenTab, address: str, scheme: str) -> None:
    """It loads, has the size that was promised, and follows a theme that was chosen by hand."""
    page = tab(color_scheme=scheme)
    page.goto(f"{address}#panel-chart-2")
    image = page.locator("#panel-chart-2 img")
    image.evaluate("one => one.decode()")
    assert image.evaluate("one => one.currentSrc").endswith(f"theme={scheme}")
    size = image.evaluate("one => [one.naturalWidth, one.naturalHeight, one.width, one.height]")
    assert size[:2] == size[2:]
    other = {"light": "dark", "dark": "light"}[scheme]
    loaded = image.evaluate(
        "(one, theme) => new Promise((done) => { one.addEventListener('load', () => done(one.currentSrc)); "
        "document.documentElement.dataset.theme = theme; })",
        other,
    )
    assert loaded.endswith(f"theme={other}")


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_every_panel_can_be_read_by_everybody(tab: OpenTab, address: str, scheme: str, width: int) -> None:
    """Axe finds nothing serious in any of them, and no page scrolls sideways."""
    page = tab(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto(address)
    for each in page.get_by_role("tab").all():
        each.click()
        assert_accessible(page)
        assert_fits(page)


def test_without_scripts_everything_is_there(tab: OpenTab, address: str) -> None:
    """All panels one below the other, trees that open, and links to each."""
    page = tab(java_script_enabled=False, viewport={"width": 320, "height": 800})
    page.goto(address)
    expect(page.locator(".panel:visible")).to_have_count(7)
    expect(page.get_by_role("link", name="Where")).to_be_visible()
    page.locator("#panel-json .raw > summary").click()
    expect(page.locator("#panel-json pre")).to_be_visible()
    expect(page.locator("[data-copy]")).not_to_be_visible()


def test_where_the_script_of_tabs_is_missing_links_lead_to_panels(
    page: Page, troubles: list[str], address: str
) -> None:
    """Scripts run, but this one did not come: nothing is out of reach."""
    page.route("**/tabs.js", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("#panel-table-1")).to_be_visible()
    expect(page.locator("#panel-map-3")).not_to_be_visible()
    page.get_by_role("link", name="Where").click()
    expect(page.locator("#panel-map-3")).to_be_visible()
    troubles[:] = [one for one in troubles if "ERR_FAILED" not in one]


def test_nothing_that_is_stored_runs(page: Page, address: str) -> None:
    """Script and markup in every field are texts, also when a chart is opened by itself; none asks another host."""
    page.goto(address)
    for each in page.get_by_role("tab").all():
        each.click()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("typeof window.hit") == "undefined"
    page.goto(f"{address}/views/2.svg")
    assert page.evaluate("typeof window.hit") == "undefined"
    assert page.evaluate("window.origin") == "null"


def test_an_interim_result_moves_on_by_itself(page: Page, site: Live) -> None:
    """The newest version comes without a reload, and stays in the tab that was chosen."""
    gate = new_id()
    job = site.submit("growing", gate=gate)
    GATES.wait_until_reached(gate)
    result_id = site.job(job["job_id"])["result_id"]
    page.goto(f"/results/{result_id}")
    page.get_by_role("tab", name="JSON").click()
    page.evaluate("document.activeElement.blur()")
    expect(page.get_by_text("Version 2 of 2")).to_be_visible()
    GATES.open(gate)
    expect(page.get_by_text("Version 3 of 3")).to_be_visible()
    expect(page.get_by_role("tabpanel", name="JSON")).to_be_visible()
    expect(page.locator("#result-head").get_by_text("Completed")).to_be_visible()


def test_versions_are_compared_from_the_page(page: Page, site: Live) -> None:
    """Two are chosen and laid side by side, on a phone as well."""
    gate = new_id()
    GATES.open(gate)
    job = site.wait(site.submit("growing", gate=gate)["job_id"])
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto(f"/results/{job['result_id']}")
    page.get_by_label("From").select_option("1")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("From v1 to v3")
    assert_accessible(page)
    assert_fits(page)


def test_the_link_of_a_result_is_copied(tab: OpenTab, site: Live, address: str) -> None:
    """With the tab that is looked at."""
    page = tab(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{address}#panel-json")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{site.url}{address}#panel-json"


def test_maps_and_charts_say_what_they_show_to_pointer_and_keyboard(tab: OpenTab, address: str) -> None:
    """Names and values by hover, Tab and touch, with a script or without; nothing leaves the page on a phone."""
    page = tab()
    page.goto(f"{address}#panel-map-3")
    place = page.locator(".map-wide .map-tip").first
    name = place.locator("text")
    expect(name).to_have_css("opacity", "0")
    place.locator("circle").hover()
    expect(name).to_have_css("opacity", "1")
    page.mouse.move(0, 0)
    expect(name).to_have_css("opacity", "0")
    place.focus()
    expect(name).to_have_css("opacity", "1")
    expect(place).to_have_attribute("aria-label", re.compile("Zürich"))
    expect(page.locator(".map-wide .map-name").first).to_be_visible()
    assert_accessible(page)
    page.get_by_role("tab", name="Levels", exact=True).click()
    bar = page.locator(".chart-wide .tip").first
    bar.locator("rect").hover()
    expect(bar.locator("text")).to_have_css("opacity", "1")
    page.mouse.move(0, 0)
    expect(bar.locator("text")).to_have_css("opacity", "0")
    bar.focus()
    expect(bar.locator("text")).to_have_css("opacity", "1")
    expect(bar).to_have_attribute("aria-label", re.compile("City: .*Level"))
    image = page.locator(".chart img").bounding_box()
    panel = page.get_by_role("tabpanel", name="Levels", exact=True).bounding_box()
    assert image
    assert panel
    assert image["width"] > 0.95 * panel["width"]
    assert_accessible(page)
    phone = tab(viewport={"width": 360, "height": 740}, java_script_enabled=False, has_touch=True)
    phone.goto(f"{address}#panel-map-3")
    touched = phone.locator(".map-narrow .map-tip").first
    touched.locator("circle").tap()
    expect(touched.locator("text")).to_have_css("opacity", "1")
    expect(phone.locator(".map-wide")).not_to_be_visible()
    assert_fits(phone)
