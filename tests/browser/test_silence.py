"""How long a running job has reported no progress, in a real browser."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from langlauf.clock import SystemClock
from langlauf.domain.attempt import ClaimRequest, Progress
from langlauf.domain.instant import after
from langlauf.store.protocol import Store
from tests.browser.accessibility import assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import Live, live
from tests.support.stores import SetClock, with_store
from tests.support.submissions import accept

ORG = "default-org"
QUIET_SECONDS = 125
#: Longer than the tests take: the worker of the job is not part of them.
LEASE_SECONDS = 900.0
JOBS: list[str] = []


async def _fall_silent(store: Store, clock: SetClock) -> None:
    """Start a job, report progress once, and later only renew the lease."""
    job = await accept(store, clock, org=ORG, analysis="echo", query="Bern")
    request = ClaimRequest(
        worker_id="w-1", slots=1, analyses=("echo",), lease_seconds=LEASE_SECONDS, max_running=1, limits={}
    )
    [claimed] = await store.claim(request)
    assert await store.record(claimed.lease, Progress(percent=30, step="Reading"))
    clock.pass_(QUIET_SECONDS)
    await store.renew([claimed.lease], lease_seconds=LEASE_SECONDS)
    JOBS.append(job.job_id)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server over a store in which a job fell silent two minutes ago, as a store with that clock recorded it."""
    folder = tmp_path_factory.mktemp("site")
    clock = SetClock(after(SystemClock().now(), -QUIET_SECONDS))
    with ThreadPoolExecutor(1) as thread:  # the browser has the event loop of this thread
        thread.submit(with_store, folder / "store.db", clock, lambda store: _fall_silent(store, clock)).result()
    with live(folder) as running:
        yield running


def test_silence_is_named_with_its_length_which_grows(page: Page) -> None:
    """The page itself asks again; nothing comes from the job that would make it."""
    page.goto(f"/jobs/{JOBS[-1]}")
    activity = page.locator(".standing-estimate")
    expect(activity).to_have_text(re.compile(r"^\s*No progress for 2 min \d+ s; the worker is alive\.\s*$"))
    expect(page.locator("#state")).to_have_text("Running")
    first = activity.inner_text()
    expect(activity).not_to_have_text(first)
    expect(activity).to_have_text(re.compile(r"No progress for [2-9] min( \d+ s)?; the worker is alive\."))


def test_silence_is_named_without_a_script_in_german_on_a_phone(tab: OpenTab) -> None:
    """The same words come from the server."""
    page = tab(java_script_enabled=False, locale="de-CH", viewport={"width": 320, "height": 640})
    page.goto(f"/jobs/{JOBS[-1]}")
    expect(page.locator(".standing-estimate")).to_have_text(re.compile(r"Seit \d+ min( \d+ s)? kein Fortschritt"))
    assert_fits(page)
