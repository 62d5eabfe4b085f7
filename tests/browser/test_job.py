"""The page of a job, and what a person does with it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from langlauf.clock import new_id
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live, live


def _running(site: Live, gate: str) -> str:
    job_id: str = site.submit("gated", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    return job_id


def _partial(site: Live, gate: str) -> str:
    job_id: str = site.submit("gated", gate=gate, partials=9)["job_id"]
    GATES.wait_until_reached(gate)
    return job_id


def _completed(site: Live, gate: str) -> str:
    return str(site.wait(site.submit("echo", query=gate)["job_id"])["job_id"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that waits for jobs which do not stop for longer than a test looks at them."""
    folder = tmp_path_factory.mktemp("site")
    mail = {"LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none", "LANGLAUF_MAIL_FROM": "jobs@example.org"}
    settings = {"LANGLAUF_MAX_RUNNING": "16", "LANGLAUF_CANCEL_GRACE": "120", "LANGLAUF_DELIVERIES": "0"}
    with live(folder, **settings, **mail) as running:
        yield running


@pytest.fixture
def gate() -> Iterator[str]:
    """The name of a gate, which is open in the end."""
    name = new_id()
    yield name
    GATES.open(name)


def test_a_job_is_stopped_by_a_dialog(page: Page, site: Live, gate: str) -> None:
    """The safe answer has the focus; the reason is kept; the page shows the end without being loaded again."""
    job_id = _partial(site, gate)
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("link", name="Cancel…").click()
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    expect(dialog.get_by_role("button", name="Keep running")).to_be_focused()
    assert_accessible(page)
    dialog.get_by_role("button", name="Keep running").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("link", name="Cancel…")).to_be_focused()
    page.get_by_role("link", name="Cancel…").click()
    dialog.get_by_label("Reason").fill("wrong city")
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#state")).to_have_text("Canceled")
    expect(page.locator("#part-state")).to_contain_text("wrong city")
    expect(page.locator("#part-state")).to_contain_text("Interim result v9 stays available.")
    assert site.job(job_id)["cancel_reason"] == "wrong city"


def test_a_job_is_stopped_by_the_keyboard_alone(page: Page, site: Live, gate: str) -> None:
    """Tab to the button, Escape closes and gives the focus back, Enter stops."""
    job_id = _running(site, gate)
    page.goto(f"/jobs/{job_id}")
    button = page.get_by_role("link", name="Cancel…")
    for _ in range(40):
        if button.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_text("Canceled")
    assert site.job(job_id)["status"] == "canceled"


def test_a_job_is_stopped_without_a_script(tab: OpenTab, site: Live, gate: str) -> None:
    """A page asks, and its form does it."""
    page = tab(java_script_enabled=False, viewport={"width": 320, "height": 700})
    job_id = _running(site, gate)
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("link", name="Cancel…").click()
    expect(page.get_by_role("heading", name="Cancel this job?")).to_be_visible()
    assert_fits(page)
    page.get_by_label("Reason").fill("by hand")
    page.get_by_role("button", name="Cancel job").click()
    site.wait(job_id)
    page.goto(f"/jobs/{job_id}")
    expect(page.locator("#part-state")).to_contain_text("by hand")


def test_an_address_is_given_in_a_dialog(page: Page, site: Live, gate: str) -> None:
    """The field has the focus, the page then says where the mail goes, and Escape gives the focus back."""
    page.goto(f"/jobs/{_running(site, gate)}")
    link = page.get_by_role("link", name="Notify by e-mail")
    link.click()
    dialog = page.get_by_role("dialog", name="Notify by e-mail")
    expect(dialog.get_by_label("E-mail address")).to_be_focused()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(link).to_be_focused()
    link.click()
    dialog.get_by_label("E-mail address").fill("anna@mail.example")
    dialog.get_by_role("button", name="Save the address").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#part-mail")).to_have_text(
        "An e-mail goes to a…@mail.example when the job completes or fails."
    )
    GATES.open(gate)
    expect(page.locator("#part-mail")).to_be_empty()


def test_an_address_is_given_without_a_script(tab: OpenTab, site: Live, gate: str, troubles: list[str]) -> None:
    """A page asks, keeps a mistake to be mended, and its form does it; all within 320 pixels."""
    page = tab(java_script_enabled=False, viewport={"width": 320, "height": 700})
    page.goto(f"/jobs/{_running(site, gate)}")
    page.get_by_role("link", name="Notify by e-mail").click()
    assert_fits(page)
    page.get_by_label("E-mail address").fill("anna@mail")
    page.get_by_role("button", name="Save the address").click()
    expect(page.locator("#error-email")).to_contain_text("Enter one e-mail address")
    expect(page.get_by_label("E-mail address")).to_have_value("anna@mail")
    troubles[:] = [one for one in troubles if "400" not in one]
    assert_fits(page)
    page.get_by_label("E-mail address").fill("anna@mail.example")
    page.get_by_role("button", name="Save the address").click()
    expect(page.locator("#part-mail")).to_contain_text("a…@mail.example")


def test_the_cause_is_shown_and_copied(tab: OpenTab, site: Live) -> None:
    """On a developer's own server: what was raised, the line of the application, and the trace for the clipboard."""
    page = tab(permissions=["clipboard-read", "clipboard-write"])
    failed = site.wait(site.submit("failing", how="bug")["job_id"])
    page.goto(f"/jobs/{failed['job_id']}")
    cause = page.locator("#cause")
    expect(cause).to_contain_text("RuntimeError, raised in failing, live.py:")
    expect(cause).to_contain_text('raise RuntimeError(f"broken {how}")')
    cause.get_by_text("Stack trace", exact=True).click()
    assert_accessible(page)
    cause.get_by_role("button", name="Copy the stack trace").click()
    expect(page.locator("#said")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").endswith("RuntimeError: broken bug\n")
    page.set_viewport_size({"width": 320, "height": 700})
    assert_fits(page)


def test_a_failed_job_is_run_again_with_changes(page: Page, site: Live, gate: str) -> None:
    """The form opens at the field at fault; the pages of both jobs lead to each other and to what differs."""
    failed = site.wait(site.submit("picky", part="north", gate=gate)["job_id"])
    page.goto(f"/jobs/{failed['job_id']}")
    main = page.locator("#part-actions > :is(a, button):not(.second)")
    expect(main).to_have_text("Change the input and run again")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    main.press("Enter")
    field = page.get_by_label("Part")
    expect(field).to_be_focused()
    expect(field).to_have_value("north")
    expect(field).to_have_accessible_description("Error: The earlier job failed: part must be south")
    for seen in (page.locator("label[for='in.part']"), page.locator("[id='error-in.part']"), field):
        expect(seen).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    field.fill("south")
    field.press("Enter")
    page.wait_for_url("**/jobs/*")
    family = page.locator("#part-family")
    expect(family).to_contain_text("Run again from")
    GATES.open(gate)
    page.wait_for_url("**/results/*")
    family.get_by_role("link", name="Compare with an interim result").click()
    expect(page.get_by_role("heading", name="Two runs compared")).to_be_visible()
    expect(page.get_by_role("note")).to_contain_text("Earlier run: this job has no final result.")
    expect(page.locator("#inputs + .grid")).to_contain_text("north")
    expect(page.locator("#inputs + .grid")).to_contain_text("south")
    assert_accessible(page)
    page.goto(f"/jobs/{failed['job_id']}?lang=de")
    expect(family).to_contain_text("Erneut ausgeführt als")
    expect(family).to_contain_text("Abgeschlossen")
    page.set_viewport_size({"width": 320, "height": 700})
    assert_fits(page)


def test_a_failed_job_goes_on_where_it_stopped(page: Page, site: Live) -> None:
    """The new job is followed to its end; what was computed before is not computed again."""
    failed = site.wait(site.submit("chunked", parts=4, fail_at=2)["job_id"])
    assert failed["status"] == "failed"
    page.goto(f"/jobs/{failed['job_id']}")
    expect(page.locator("#part-state")).to_contain_text("2 finished parts are kept: Resume does not compute them")
    page.get_by_role("button", name="Resume").click()
    page.wait_for_url(lambda url: failed["job_id"] not in url)
    again = page.url.rpartition("/")[2].partition("?")[0]
    if "/jobs/" in page.url:
        assert site.wait(again)["retry_of"] == failed["job_id"]


def test_a_version_can_be_kept_in_view(page: Page, site: Live) -> None:
    """Pinned, it stays when newer ones come, and the reader is not led away at the end."""
    first, second, third = (new_id() for _ in range(3))
    job_id = site.submit("stepwise", gates=[first, second, third])["job_id"]
    GATES.open(first)
    GATES.wait_until_reached(second)
    page.goto(f"/jobs/{job_id}?v=1")
    expect(page.locator(".live-text")).to_have_text("Live")
    GATES.open(second)
    expect(page.locator("#part-result")).to_contain_text("This version is pinned. The newest is v2.")
    expect(page.locator("#part-result")).to_contain_text('"n": 1')
    GATES.open(third)
    expect(page.locator("#state")).to_have_text("Completed")
    page.wait_for_timeout(2_000)
    assert "/jobs/" in page.url
    page.get_by_role("link", name="Show the newest").click()
    expect(page.locator("#part-result")).to_contain_text('"n": 3')


def test_links_and_commands_are_copied(tab: OpenTab, site: Live) -> None:
    """The address of the page, and a command that asks the same again."""
    page = tab(permissions=["clipboard-read", "clipboard-write"])
    job_id = _completed(site, "Bern")
    page.goto(f"/jobs/{job_id}")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#said")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    curl = page.locator("[data-copies=command]")
    curl.click()
    expect(curl).to_have_text("Copied")
    assert '"query":"Bern"' in page.evaluate("navigator.clipboard.readText()")


def test_the_end_leaves_a_reader_in_place_who_is_busy(page: Page, site: Live, gate: str) -> None:
    """A banner leads to the result; an untouched page moves on by itself."""
    job_id = _running(site, gate)
    page.goto(f"/jobs/{job_id}")
    expect(page.locator(".live-text")).to_have_text("Live")
    untouched = page.context.new_page()
    untouched.goto(f"/jobs/{job_id}")
    expect(untouched.locator(".live-text")).to_have_text("Live")
    page.mouse.wheel(0, 10)
    GATES.open(gate)
    untouched.wait_for_url("**/results/*")
    banner = page.get_by_role("link", name="Done: open the result")
    expect(banner).to_be_in_viewport()
    assert "/jobs/" in page.url
    assert_accessible(page)
    banner.click()
    page.wait_for_url("**/results/*")


def test_an_action_that_is_not_sent_says_so(page: Page, site: Live, gate: str, troubles: list[str]) -> None:
    """Offline the page and what was typed stay; sent again, it is done, and the page shows it."""
    job_id = _running(site, gate)
    page.goto(f"/jobs/{job_id}")
    expect(page.locator(".live-text")).to_have_text("Live")
    page.get_by_role("link", name="Cancel…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("wrong city")
    page.context.set_offline(True)
    dialog.get_by_role("button", name="Cancel job").click()
    expect(dialog.get_by_role("alert")).to_have_text("Not sent. Check the connection, then try again.")
    expect(dialog.get_by_label("Reason")).to_have_value("wrong city")
    assert_accessible(page)
    page.context.set_offline(False)
    dialog.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#state")).to_have_text("Canceled")
    expect(dialog).to_be_hidden()
    assert site.job(job_id)["cancel_reason"] == "wrong city"
    troubles.clear()  # the browser complains of requests without a connection


def test_a_reader_is_notified_of_the_end(tab: OpenTab, site: Live, gate: str) -> None:
    """Asked for on the click; shown once, when the job has ended."""
    page = tab(permissions=["notifications"])
    page.add_init_script(
        "window.notices = []; const Own = window.Notification;"
        "window.Notification = class extends Own { constructor(...all) { super(...all); notices.push(all[0]); } }"
    )
    job_id = _running(site, gate)
    page.goto(f"/jobs/{job_id}")
    expect(page.locator(".live-text")).to_have_text("Live")
    button = page.get_by_role("button", name="Notify me")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#notify-note")).to_contain_text("as long as this tab is open")
    GATES.open(gate)
    expect(page.locator("#state")).to_have_text("Completed")
    assert [one.partition(":")[0] for one in page.evaluate("notices")] == ["Completed"]
    expect(button).to_have_count(0)
