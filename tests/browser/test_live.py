"""Pages that keep themselves as the server would show them now."""

from collections.abc import Iterator
from datetime import datetime

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from langlauf.clock import new_id
from tests.browser.conftest import OpenTab, listened
from tests.support.live import GATES, Live

#: Milliseconds from an event on the server to the change on the screen. One second is promised on a quiet machine.
_SOON = 30_000


def running(site: Live, gate: str, partials: int = 1) -> str:
    """A job that waits at its gate."""
    job_id: str = site.submit("gated", gate=gate, partials=partials)["job_id"]
    GATES.wait_until_reached(gate)
    return job_id


def expect_live(page: Page) -> None:
    """The badge says so."""
    expect(page.locator(".live-text")).to_have_text("Live")


@pytest.fixture
def gate() -> Iterator[str]:
    """The name of a gate, which is open in the end."""
    name = new_id()
    yield name
    GATES.open(name)


def test_a_job_is_seen_from_its_start_to_its_result(page: Page, site: Live) -> None:
    """Parts, title and icon change without a load of the page; then the tab goes on to the result, and can go back."""
    first, second = new_id(), new_id()
    job_id = site.submit("stepwise", gates=[first, second])["job_id"]
    GATES.wait_until_reached(first)
    page.goto(f"/jobs/{job_id}")
    expect_live(page)
    page.evaluate("window.same = true")
    icon = page.locator("link[rel=icon]").get_attribute("href")
    expect(page.locator("progress")).not_to_have_attribute("value", "50")
    GATES.open(first)
    expect(page.locator("progress")).to_have_attribute("value", "50")
    expect(page.locator("#part-result")).to_contain_text("v1")
    assert "50 %" in page.title()
    assert page.locator("link[rel=icon]").get_attribute("href") != icon
    expect(page.locator("#said")).to_have_text("Running, 50 % done")
    assert page.evaluate("window.same") is True
    GATES.wait_until_reached(second)
    GATES.open(second)
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_url("**/results/**")
    page.go_back()
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_timeout(2_000)
    assert "/jobs/" in page.url


def test_what_happens_is_on_the_screen_soon(page: Page, site: Live) -> None:
    """Measured from the time of the event to the change of the page, by the clock they share. Nothing jumps."""
    first, second = new_id(), new_id()
    job_id = site.submit("stepwise", gates=[first, second])["job_id"]
    GATES.wait_until_reached(first)
    page.add_init_script("""
        window.shifts = 0;
        new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.shifts += one.value)))
            .observe({ type: "layout-shift", buffered: true });
        document.addEventListener("langlauf:changed", () => {
            if (document.querySelector("progress")?.value === 50) window.seenAt ??= Date.now();
        });
    """)
    page.goto(f"/jobs/{job_id}")
    expect_live(page)
    before = page.evaluate("window.shifts")
    GATES.open(first)
    expect(page.locator("progress")).to_have_attribute("value", "50")
    seen = page.evaluate("window.seenAt")
    [event] = [one for one in site.job(job_id)["events"] if one["event_type"] == "job.partial"]
    happened = datetime.fromisoformat(event["occurred_at"]).timestamp() * 1_000
    assert seen - happened < _SOON
    # The result so far is below all else that changes; the head of the page keeps its place.
    assert page.evaluate("window.shifts") - before < 0.1
    GATES.open(second)


def test_seven_tabs_follow_seven_jobs_over_one_stream(tab: OpenTab, site: Live, troubles: list[str]) -> None:
    """More than a browser has connections for; each tab hears of its own job."""
    gates = [new_id() for _ in range(7)]
    first = tab()
    pages = [first, *(listened(first.context.new_page(), site.url, troubles) for _ in gates[1:])]
    streams: list[str] = []
    first.context.on("request", lambda request: streams.append(request.url) if "/stream?" in request.url else None)
    for one, gate in zip(pages, gates, strict=True):
        one.goto(f"/jobs/{running(site, gate)}")
    for one in pages:
        expect_live(one)
    for one, gate in reversed(list(zip(pages, gates, strict=True))):
        GATES.open(gate)
        expect(one.locator("#state")).to_have_text("Completed")
    for one in pages:
        one.wait_for_url("**/results/**")
    assert max(url.count("%2C") + 1 for url in streams) == 7


def test_without_a_connection_the_page_says_so_and_comes_back(
    page: Page, site: Live, gate: str, troubles: list[str]
) -> None:
    """Since when, once aloud; time stands still; and everything is caught up with afterwards."""
    job_id = running(site, gate, partials=3)
    page.goto(f"/jobs/{job_id}")
    expect_live(page)
    page.context.set_offline(True)
    expect(page.locator(".live-text")).to_contain_text("Offline since")
    expect(page.locator("#live-alert")).to_contain_text("Connection lost")
    elapsed = page.locator(".elapsed").text_content()
    GATES.open(gate)
    site.wait(job_id)
    page.wait_for_timeout(1_500)
    assert page.locator(".elapsed").text_content() == elapsed
    page.context.set_offline(False)
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_url("**/results/**")
    troubles[:] = [one for one in troubles if "ERR_INTERNET_DISCONNECTED" not in one and "Failed to load" not in one]


def test_where_streams_do_not_work_the_page_polls(page: Page, site: Live, gate: str, troubles: list[str]) -> None:
    """A proxy in the way costs seconds, not truth."""

    def refuse(route: Route) -> None:
        route.fulfill(status=502, body="")

    page.route("**/stream?**", refuse)
    page.goto(f"/jobs/{running(site, gate)}")
    expect(page.locator(".live-text")).to_have_text("Live (polling)")
    GATES.open(gate)
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_url("**/results/**")
    troubles.clear()


def test_a_reader_can_stop_all_of_it(page: Page, site: Live, gate: str) -> None:
    """Paused, nothing moves, in other tabs neither, and nobody is led away; continued, it is caught up with."""
    job_id = running(site, gate)
    page.goto(f"/jobs/{job_id}")
    expect_live(page)
    other = page.context.new_page()
    other.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Stop updates").click()
    for one in (page, other):
        expect(one.locator(".live-text")).to_have_text("Updates stopped")
    GATES.open(gate)
    site.wait(job_id)
    page.wait_for_timeout(2_000)
    expect(page.locator("#state")).to_have_text("Interim result, still running")
    page.get_by_role("button", name="Resume updates").click()
    expect(page.locator("#state")).to_have_text("Completed")
    other.close()


def test_what_a_reader_is_busy_with_stays(page: Page, site: Live) -> None:
    """A part with the focus is not replaced until the focus has left; what was opened stays open."""
    first, second = new_id(), new_id()
    job_id = site.submit("stepwise", gates=[first, second])["job_id"]
    GATES.wait_until_reached(first)
    page.goto(f"/jobs/{job_id}")
    expect_live(page)
    page.locator("#line-table summary").click()
    page.keyboard.press("Tab")
    expect(page.locator(".sorts a").first).to_be_focused()
    GATES.open(first)
    expect(page.locator("progress")).to_have_attribute("value", "50")
    expect(page.locator(".sorts a").first).to_be_focused()
    expect(page.locator("#part-events")).not_to_contain_text("Interim result stored")
    page.locator("h1").click()
    page.evaluate("document.activeElement.blur()")
    expect(page.locator("#part-events")).to_contain_text("Interim result stored")
    expect(page.locator("#line-table")).to_have_attribute("open", "")
    GATES.open(second)


def test_without_a_script_the_page_loads_itself_again(tab: OpenTab, site: Live, gate: str) -> None:
    """Everything can be read, and the job is seen to end."""
    page = tab(java_script_enabled=False)
    page.goto(f"/jobs/{running(site, gate)}")
    expect(page.locator("#state")).to_have_text("Interim result, still running")
    GATES.open(gate)
    expect(page.locator("#state")).to_have_text("Completed")


def test_a_page_of_a_context_without_locks_has_a_stream_of_its_own(tab: OpenTab, site: Live, gate: str) -> None:
    """As on plain HTTP, where browsers have no locks: the tab that is looked at is live."""
    page = tab()
    page.add_init_script("delete Navigator.prototype.locks")
    page.goto(f"/jobs/{running(site, gate)}")
    expect_live(page)
    GATES.open(gate)
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_url("**/results/**")


def test_the_stream_of_a_tab_that_closes_goes_on_in_another(tab: OpenTab, site: Live, troubles: list[str]) -> None:
    """Whoever read for all leaves; the next one takes over."""
    gates = [new_id(), new_id()]
    first = tab()
    context: BrowserContext = first.context
    first.goto(f"/jobs/{running(site, gates[0])}")
    expect_live(first)
    second = listened(context.new_page(), site.url, troubles)
    second.goto(f"/jobs/{running(site, gates[1])}")
    expect_live(second)
    first.close()
    GATES.open(gates[1])
    expect(second.locator("#state")).to_have_text("Completed")
    GATES.open(gates[0])
