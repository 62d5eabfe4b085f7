"""`<job-progress>` on a page of another origin, with nothing but a token for one job."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from langlauf.clock import new_id
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import PATIENCE
from tests.browser.cuttable_proxy import CuttableProxy, proxy_to
from tests.support.keys import OPERATOR
from tests.support.live import GATES, Live, live


class Host:
    """A web server of somebody else, with pages that a test writes."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def page(self, api: str, attributes: str, inner: str = "", language: str = "en") -> str:
        """The address of a page with one element."""
        name = f"{new_id()}.html"
        self.folder.joinpath(name).write_text(
            f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>Host</title>'
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
            '<meta http-equiv="Content-Security-Policy" content="'
            f"default-src 'none'; script-src {api}; connect-src {api}\">"
            f'<script type="module" src="{api}/static/v1/job-progress.js"></script></head><body><main><h1>Host</h1>'
            f"<job-progress {attributes}>{inner}</job-progress></main></body></html>"
        )
        return f"{self.url}/{name}"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Says nothing."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Another origin."""
    folder = tmp_path_factory.mktemp("host")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Host(folder, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, host: Host) -> Iterator[Live]:
    """A server that asks for keys, and lets the other origin call it."""
    with live(tmp_path_factory.mktemp("jobs"), API_AUTH_TOKEN=OPERATOR, LANGLAUF_CORS_ORIGINS=host.url) as running:
        running.http.headers["Authorization"] = f"Bearer {OPERATOR}"
        yield running


@pytest.fixture(scope="module")
def line(jobs: Live) -> Iterator[CuttableProxy]:
    """The way to the server."""
    with proxy_to(jobs.url) as line:
        yield line


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile."""
    context = browser.new_context(locale="en-GB", viewport={"width": 320, "height": 600})
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def refusals(context: BrowserContext) -> list[str]:
    """What the policy of the host page refused: nothing of the element."""
    found: list[str] = []

    def told(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            found.append(message.text)

    context.on("console", told)
    return found


def token(jobs: Live, job_id: str, **body: Any) -> str:
    """A token for a job."""
    made = jobs.http.post(f"/analyze/jobs/{job_id}/token", json=body)
    assert made.status_code == 200, made.text
    text: str = made.json()["token"]
    return text


def gated(jobs: Live, partials: int = 0) -> tuple[str, str]:
    """A job that waits at its gate."""
    gate = new_id()
    job = jobs.submit("gated", gate=gate, partials=partials)
    GATES.wait_until_reached(gate)
    return job["job_id"], gate


def element(page: Page) -> Locator:
    """The element."""
    return page.locator("job-progress")


LISTEN = """() => {
  window.told = [];
  for (const kind of ["status", "progress", "partial", "done", "error", "connection"])
    document.addEventListener(`job-${kind}`, ({ detail }) =>
      window.told.push([kind, detail.state ?? detail.status ?? null]));
}"""


def test_a_job_is_shown_from_interim_to_final(
    context: BrowserContext, host: Host, jobs: Live, refusals: list[str]
) -> None:
    """State, percent, step and version; then its end, with events and properties for the page, and under its policy."""
    job_id, gate = gated(jobs, partials=3)
    page = context.new_page()
    page.add_init_script(f"({LISTEN})()")
    src = f'src="{jobs.url}/jobs/{job_id}" token="{token(jobs, job_id)}" title-progress'
    page.goto(host.page(jobs.url, src, '<a slot="completed" href="#">Look</a><a href="#fallback">The job</a>'))
    shown = element(page)
    expect(shown).to_contain_text("Interim result, still running")
    expect(shown).to_contain_text("30 %")
    expect(shown).to_contain_text("part 3")
    expect(shown).to_contain_text("interim result 3")
    expect(page).to_have_title("30 % · Host")
    expect(page.get_by_role("link", name="The job")).to_be_hidden()
    assert_accessible(page)
    assert_fits(page)
    page.wait_for_function("told.some(([kind, state]) => state === 'live')")
    GATES.open(gate)
    expect(shown).to_contain_text("Completed")
    expect(page.get_by_role("link", name="Look")).to_be_visible()
    assert page.evaluate(
        "[document.querySelector('job-progress').status, document.querySelector('job-progress').progress]"
    ) == ["completed", 100]
    kinds = [tuple(one) for one in page.evaluate("told")]
    assert ("done", "completed") in kinds
    assert ("connection", "ended") in kinds
    assert [kind for kind, _ in kinds].count("done") == 1
    url = page.evaluate("document.querySelector('job-progress').snapshot.url")
    assert jobs.http.get(url).json()["result"] == {"gate": gate}
    assert refusals == []


def test_elements_of_one_job_share_a_stream(context: BrowserContext, host: Host, jobs: Live) -> None:
    """Two elements, one connection; both follow."""
    job_id, gate = gated(jobs)
    page = context.new_page()
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if request.url.endswith("/events") else None)
    src = f'src="{jobs.url}/analyze/jobs/{job_id}" token="{token(jobs, job_id)}"'
    page.goto(host.page(jobs.url, f"{src} lang=de", f"</job-progress><job-progress {src} variant=chip>"))
    expect(element(page).first).to_contain_text("Läuft")
    expect(element(page).last).to_contain_text("Running")
    GATES.open(gate)
    expect(element(page).first).to_contain_text("Abgeschlossen")
    expect(element(page).last).to_contain_text("Completed")
    assert len(streams) == 1


def test_a_failure_is_told_once_and_says_why(context: BrowserContext, host: Host, jobs: Live) -> None:
    """As an alert, with the message of the job."""
    job = jobs.wait(jobs.submit("failing", how="permanent")["job_id"])
    page = context.new_page()
    page.goto(host.page(jobs.url, f'src="{jobs.url}/jobs/{job["job_id"]}" token="{token(jobs, job["job_id"])}"'))
    expect(element(page).get_by_role("alert")).to_have_text("no such place")
    expect(element(page)).to_contain_text("Failed")
    expect(element(page)).to_contain_text("The last interim result stays available.")


def test_a_cut_line_is_told_and_comes_back(
    context: BrowserContext, host: Host, jobs: Live, line: CuttableProxy
) -> None:
    """What is shown stays and says how old it is; after the line is mended, nothing is missing."""
    job_id, gate = gated(jobs, partials=2)
    page = context.new_page()
    page.goto(
        host.page(
            line.url, f'src="{line.url}/jobs/{job_id}" token="{token(jobs, job_id)}"', '<b slot="offline">Gone</b>'
        )
    )
    expect(element(page)).to_contain_text("20 %")
    line.cut()
    expect(element(page).get_by_role("alert")).to_contain_text("Connection lost")
    expect(page.get_by_text("Gone")).to_be_visible()
    expect(element(page)).to_contain_text("20 %")
    GATES.open(gate)
    jobs.wait(job_id)
    line.mend()
    page.get_by_role("button", name="Retry now").click()
    expect(element(page)).to_contain_text("Completed")
    expect(element(page).get_by_role("alert")).to_be_empty()
    expect(page.get_by_role("button")).to_have_count(0)


def test_a_server_that_streams_nothing_is_polled(context: BrowserContext, host: Host, jobs: Live) -> None:
    """A proxy that breaks streams costs liveness, not truth."""
    job_id, gate = gated(jobs)
    page = context.new_page()
    page.route("**/events", lambda route: route.abort())
    page.goto(host.page(jobs.url, f'src="{jobs.url}/jobs/{job_id}" token="{token(jobs, job_id)}" poll=1'))
    expect(element(page)).to_contain_text("Live (polling)")
    GATES.open(gate)
    expect(element(page)).to_contain_text("Completed")


def test_a_token_that_may_stops_the_job(context: BrowserContext, host: Host, jobs: Live) -> None:
    """After a question whose safe answer has the focus; Escape changes nothing."""
    job_id, _ = gated(jobs, partials=1)
    page = context.new_page()
    page.goto(
        host.page(jobs.url, f'src="{jobs.url}/jobs/{job_id}" token="{token(jobs, job_id, cancel=True)}" cancelable')
    )
    ask = page.get_by_role("button", name="Cancel…")
    ask.click()
    expect(page.get_by_role("button", name="Keep running")).to_be_focused()
    page.keyboard.press("Escape")
    expect(ask).to_be_focused()
    ask.click()
    page.get_by_role("button", name="Cancel job").click()
    expect(element(page)).to_contain_text("Canceled")
    expect(page.get_by_role("button")).to_have_count(0)
    assert jobs.job(job_id)["status"] == "canceled"


def test_a_token_that_may_not_says_so(context: BrowserContext, host: Host, jobs: Live) -> None:
    """The job goes on, and so does the element."""
    job_id, gate = gated(jobs)
    page = context.new_page()
    page.goto(host.page(jobs.url, f'src="{jobs.url}/jobs/{job_id}" token="{token(jobs, job_id)}" cancelable'))
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(element(page).get_by_role("alert")).to_contain_text("The job could not be canceled.")
    GATES.open(gate)
    expect(element(page)).to_contain_text("Completed")


def test_a_wrong_token_shows_the_link_instead(context: BrowserContext, host: Host, jobs: Live) -> None:
    """And asks no more; a good one, set later, is used at once."""
    job_id, gate = gated(jobs)
    page = context.new_page()
    page.add_init_script(f"({LISTEN})()")
    page.goto(host.page(jobs.url, f'src="{jobs.url}/jobs/{job_id}" token="llt_wrong"', '<a href="#">The job</a>'))
    expect(element(page)).to_contain_text("This job cannot be shown")
    expect(page.get_by_role("link", name="The job")).to_be_visible()
    assert ["error", 401] in page.evaluate("told")
    page.evaluate("text => document.querySelector('job-progress').setAttribute('token', text)", token(jobs, job_id))
    expect(element(page)).to_contain_text("Running")
    GATES.open(gate)


def test_without_a_script_the_link_is_there(browser: Browser, host: Host, jobs: Live) -> None:
    """What stands inside the element is its fallback."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(host.page(jobs.url, 'src="x"', '<a href="#">The job</a>'))
    expect(page.get_by_role("link", name="The job")).to_be_visible()
    context.close()


def test_the_example_works(context: BrowserContext, host: Host, jobs: Live) -> None:
    """With the address, the job and the token put in."""
    job_id, gate = gated(jobs, partials=1)
    text = Path("examples/embedding.html").read_text()
    for word, value in (("https://jobs.example.ch", jobs.url), ("JOB", job_id), ("TOKEN", token(jobs, job_id))):
        assert word in text
        text = text.replace(word, value)
    (host.folder / "example.html").write_text(text)
    page = context.new_page()
    page.goto(f"{host.url}/example.html")
    expect(element(page)).to_contain_text("10 %")
    GATES.open(gate)
    expect(page.get_by_text("Your report is ready.")).to_be_visible()
    assert_fits(page)
