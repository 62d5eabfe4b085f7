"""The first page in a real browser: by keyboard alone, with errors, files, colours, times, shortcuts; its weight."""

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Response, expect

from langlauf import Job, Langlauf
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab, listened
from tests.support.live import Live, live, sample_app
from tests.support.uvicorn_process import uvicorn

#: In bytes, as they are sent, without compression.
LIGHT = 100_000
FORM = "/?analysis=survey"


class Stop(msgspec.Struct):
    """A record with two fields."""

    name: str
    minutes: int


def form_app() -> Langlauf:
    """The sample analyses, and one with entries of many kinds."""
    app = sample_app()

    @app.analysis(duplicates=True)
    async def survey(
        job: Job,
        region: Annotated[str, msgspec.Meta(min_length=2, description="A region.", examples=["Bern", "Basel"])],
        years: Annotated[int, msgspec.Meta(ge=1, le=9)] = 3,
        mode: Literal["basic", "deep"] = "basic",
        strict: bool = False,
        codes: list[int] | None = None,
        weights: dict[str, float] | None = None,
        text: Annotated[str, msgspec.Meta(max_length=5_000)] = "",
    ) -> dict[str, Any]:
        """Reads a region."""
        return {"region": region, "years": years, "mode": mode, "strict": strict, "text": text}

    @app.analysis(duplicates=True)
    async def route(job: Job, stops: list[Stop], day: dt.date | None = None) -> Any:
        return msgspec.to_builtins(stops)

    return app


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with them."""
    mail = {"LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none", "LANGLAUF_MAIL_FROM": "jobs@example.org"}
    with live(tmp_path_factory.mktemp("start"), form_app(), LANGLAUF_DELIVERIES="0", **mail) as running:
        yield running


def job_id(page: Page) -> str:
    """The job whose page is open."""
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    return page.url.partition("/jobs/")[2].partition("?")[0]


def test_a_start_and_a_schedule_are_in_the_zone_of_the_reader(tab: OpenTab, site: Live) -> None:
    """The form says which zone that is, and sends it; a new schedule has it already."""
    page = tab(timezone_id="America/New_York")
    page.goto(FORM)
    page.get_by_label("Region").fill("Bern")
    page.get_by_text("More options").click()
    expect(page.locator("[id='hint-option.run_at']")).to_contain_text("In your time zone: Eastern")
    page.get_by_label("Start at").fill("2096-07-01T06:00")
    page.get_by_label("Start by").fill("2096-07-01T08:00")
    page.get_by_role("button", name="Start", exact=True).last.click()
    job = site.job(job_id(page))
    assert (job["run_at"], job["start_by"]) == ("2096-07-01T10:00:00Z", "2096-07-01T12:00:00Z")
    page.goto("/schedules?analysis=survey")
    expect(page.get_by_label("Time zone")).to_have_value("America/New_York")
    page.get_by_label("Name", exact=True).fill("winter")
    page.get_by_label("Times of the clock").fill("0 6 * * *")
    page.get_by_label("Region").fill("Bern")
    page.get_by_role("button", name="Add schedule").last.click()
    expect(page.get_by_role("heading", name="winter")).to_be_in_viewport()
    assert site.http.get("/analyze/schedules/winter").json()["schedule"]["zone"] == "America/New_York"


def test_a_schedule_and_a_latest_start_need_no_script_and_little_room(
    tab: OpenTab, site: Live, troubles: list[str]
) -> None:
    """In German, on the narrowest screen: whom to notify of the runs, and by when a job must have started."""
    page = tab(java_script_enabled=False, locale="de-CH", viewport={"width": 320, "height": 640})
    page.goto("/schedules?analysis=survey")
    page.get_by_label("Name", exact=True).fill("daily")
    page.get_by_label("Oder ein Abstand").fill("24h")
    page.get_by_label("Region").fill("Bern")
    page.get_by_label("E-Mail-Adresse").fill("nobody")
    page.get_by_role("button", name="Zeitplan hinzufügen").last.click()
    expect(page.get_by_label("E-Mail-Adresse")).to_have_attribute("aria-invalid", "true")
    assert_fits(page)
    page.get_by_label("E-Mail-Adresse").fill("anna@example.org")
    page.get_by_role("button", name="Zeitplan hinzufügen").last.click()
    expect(page.get_by_text("gehen an anna@example.org")).to_be_visible()
    assert_fits(page)
    made = site.http.get("/analyze/schedules/daily").json()["schedule"]["notify"]
    assert made == {"email": "anna@example.org", "language": "de"}
    page.goto(FORM)
    page.get_by_label("Region").fill("Bern")
    page.get_by_text("Weitere Optionen").click()
    assert_fits(page)
    page.get_by_label("Spätester Start").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Starten", exact=True).last.click()
    expect(page.locator("[id='error-option.start_by']")).to_contain_text("Eine Zeit in der Zukunft angeben")
    assert_fits(page)
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    assert troubles == [refused, refused]
    troubles.clear()


def test_a_job_is_started_by_keyboard_alone(page: Page, site: Live) -> None:
    """From the skip link to the job's page."""
    page.goto(FORM)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "in.region":
            break
    page.keyboard.type("Zürich")
    page.keyboard.press("Tab")
    page.keyboard.type("7")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    result = site.wait(job_id(page))["result"]
    assert result == {"region": "Zürich", "years": 7, "mode": "deep", "strict": True, "text": ""}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_errors_have_the_focus_and_lead_to_their_entries(tab: OpenTab, troubles: list[str], scheme: str) -> None:
    """On a phone as well, accessible in both colour schemes."""
    page = tab(color_scheme=scheme, viewport={"width": 320, "height": 640})
    page.goto(FORM)
    assert_accessible(page)
    assert_fits(page)
    page.fill("[name='in.region']", "Bern")
    page.fill("[name='in.codes']", "1\nx")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#errors")).to_be_focused()
    assert_accessible(page)
    assert_fits(page)
    page.get_by_role("link", name="Codes", exact=True).click()
    field = page.locator("[name='in.codes']")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(re.compile("Value 2: Enter a whole number"))
    expect(page.locator("[name='in.region']")).to_have_value("Bern")
    troubles[:] = [one for one in troubles if "400" not in one]  # the answer to the form


def test_a_text_comes_out_of_a_file(page: Page, site: Live, tmp_path: Path) -> None:
    """Into the field, where it can still be read and changed; one that is no text is refused with a reason."""
    page.goto(FORM)
    entry = page.locator(".entry", has=page.locator("[name='in.text']"))
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\xff")
    entry.locator("input[type=file]").set_input_files(picture)
    expect(entry.get_by_role("status")).to_have_text("This file is not UTF-8 text.")
    notes = tmp_path / "notes.txt"
    notes.write_text("Grüsse\naus Bern")
    entry.locator("input[type=file]").set_input_files(notes)
    expect(page.locator("[name='in.text']")).to_have_value("Grüsse\naus Bern")
    page.fill("[name='in.region']", "Bern")
    page.locator("[name='in.region']").press("Enter")
    assert site.wait(job_id(page))["result"]["text"] == "Grüsse\naus Bern"


def test_all_of_it_works_without_a_script(tab: OpenTab, site: Live) -> None:
    """Choosing, filling in, starting; colours and language as well."""
    page = tab(java_script_enabled=False)
    page.goto("/")
    page.locator(".analyses").get_by_role("link", name=re.compile("^survey")).click()
    page.fill("[name='in.region']", "Bern")
    page.get_by_role("button", name="Start").click()
    assert site.wait(job_id(page))["result"]["region"] == "Bern"
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("radio", name="Dark").check()
    page.get_by_role("radio", name="Deutsch").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("heading", level=1)).to_have_text("Einstellungen")
    page.get_by_role("button", name="Farben: dunkel").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile("."))


def test_the_first_page_is_light(page: Page) -> None:
    """HTML, style and scripts together, as they are sent."""
    sizes: dict[str, int] = {}

    def came(response: Response) -> None:
        if not response.url.endswith("/stream"):
            sizes[response.url] = int(response.headers.get("content-length", "0"))

    page.on("response", came)
    page.goto("/", wait_until="load")
    assert len(sizes) >= 4
    assert all(sizes.values())
    assert sum(sizes.values()) < LIGHT, sizes


def test_times_are_those_of_the_reader(tab: OpenTab, site: Live) -> None:
    """In their zone, which is named, and as ages by the server's clock where the reader's is wrong."""
    site.wait(site.submit("echo", query="x")["job_id"])
    page = tab(timezone_id="Asia/Tokyo", locale="de-CH")
    page.clock.install(time="2020-01-01T00:00:00Z")
    page.goto("/")
    first = page.locator("#recent-jobs time").first
    expect(first).to_have_text(re.compile(r"^(jetzt|(vor|in) \d+ Sek\.)$"))
    expect(first).to_have_attribute("title", re.compile(r"GMT\+9"))
    expect(page.locator(".bottom")).to_contain_text("Japanische Normalzeit")


def test_the_switch_changes_colours_at_once(page: Page) -> None:
    """Without loading the page, and for the next one too."""
    page.goto("/problems")
    page.evaluate("window.same = true")
    with page.expect_response("**/settings"):
        page.get_by_role("button", name="Colours: system setting").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Colours: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("window.same")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"


def test_shortcuts_go_places(page: Page) -> None:
    """`?` lists them and Escape closes the list; in a field they are letters; turned off, they do nothing."""
    page.clock.set_fixed_time("2026-01-01T00:00:00Z")  # two keys are one shortcut for a second only
    page.goto("/")
    field = page.locator("[name='in.query']")
    field.focus()
    page.keyboard.type("?g/")
    expect(field).to_have_value("?g/")
    field.blur()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/docs")
    page.goto("/settings")
    page.get_by_role("radio", name="Off").check()
    page.get_by_role("button", name="Save").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_it_works_below_a_prefix(browser: Browser, tmp_path: Path) -> None:
    """The form, the switch and the shortcuts find their addresses where another application mounts this one."""
    with uvicorn("mounted_starlette:app", tmp_path) as outer:
        context = browser.new_context(base_url=str(outer.http.base_url), locale="en-GB")
        troubles: list[str] = []
        page = listened(context.new_page(), str(outer.http.base_url), troubles)
        page.clock.set_fixed_time("2026-01-01T00:00:00Z")  # two keys are one shortcut for a second only
        page.goto("/tools/")
        page.get_by_role("button", name="Colours: system setting").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.fill("[name='in.text']", "one two")
        page.get_by_role("button", name="Start").click()
        page.wait_for_url(re.compile(r"/tools/jobs/[0-9a-f-]{36}"))
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.keyboard.press("g")
        page.keyboard.press("d")
        page.wait_for_url("**/tools/docs")
        context.close()
        assert troubles == []


def test_the_example_starts_with_one_click(page: Page, site: Live) -> None:
    """The grey text of the field becomes a job."""
    page.goto(FORM)
    page.get_by_role("button", name="Run the example: Bern").click()
    page.wait_for_url(re.compile("/jobs/"))
    assert site.wait(page.url.rpartition("/jobs/")[2].partition("?")[0])["result"]["region"] == "Bern"


def test_rows_are_added_and_a_day_is_picked(page: Page, site: Live) -> None:
    """A row of fields per record, without loading the page; the Enter key starts the job, and adds no row."""
    page.goto("/?analysis=route")
    for number, (name, minutes) in enumerate([("A", "4"), ("B", "5"), ("C", "6")]):
        if number == 2:
            page.get_by_role("button", name="Add rows").click()
            expect(page.locator('[name="in.stops.2.name"]')).to_be_focused()
        page.locator(f'[name="in.stops.{number}.name"]').fill(name)
        page.locator(f'[name="in.stops.{number}.minutes"]').fill(minutes)
    assert_accessible(page)
    expect(page.locator('[name="in.day"]')).to_have_attribute("type", "date")
    page.locator('[name="in.stops.0.name"]').press("Enter")
    page.wait_for_url(re.compile("/jobs/"))
    result = site.wait(page.url.rpartition("/jobs/")[2].partition("?")[0])["result"]
    assert [one["name"] for one in result] == ["A", "B", "C"]


def test_a_phone_shows_the_first_field(tab: OpenTab) -> None:
    """On its first screen, above the bar with the button; the head has three pages, and the others behind one entry."""
    page = tab(viewport={"width": 360, "height": 640})
    page.goto(FORM)
    field, bar = page.locator('[name="in.region"]').bounding_box(), page.locator(".send").bounding_box()
    assert field is not None
    assert bar is not None
    assert field["y"] + field["height"] <= bar["y"]
    entries = page.locator(".pages > ul > li")
    assert [entry.inner_text().split()[0] for entry in entries.all()] == ["Start", "Jobs", "Inbox", "More"]
    page.get_by_text("More", exact=True).click()
    assert_fits(page)
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Operations")).to_be_hidden()
