"""The page of one job: state, progress, timeline, and that it says nothing to other orgs."""

import re
from collections.abc import Iterator

import pytest

from langlauf.clock import new_id
from langlauf.domain.event import Event, EventType
from langlauf.domain.instant import SECOND
from langlauf.domain.job import INLINE_REF, JobRecord, Phase
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.service.read import DerivedFields
from langlauf.settings import load_settings
from langlauf.ui.language import load_language
from langlauf.ui.pages.job_headline import JobObservation, job_headline
from tests.support.live import GATES, Live, live, sample_app
from tests.ui.html_page import assert_page


def test_a_job_that_works_shows_how_far_it_is(server: Live) -> None:
    """Percent, step, partials and the summary; the page loads itself again."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=3)["job_id"]
    GATES.wait_until_reached(gate)
    made = assert_page(server.http.get(f"/jobs/{job_id}"))
    assert [one["value"] for one in made.all("progress")] == ["30"]
    assert "30 %" in made.text_of("title")
    assert "Step: part 3" in made.text
    assert "the job continues, and numbers can still change." in made.text
    assert made.refresh is not None
    assert 2 <= int(made.refresh) <= 30
    GATES.open(gate)
    done = server.wait(job_id)
    made = assert_page(server.http.get(f"/jobs/{job_id}"))
    assert made.refresh is None
    assert [one["value"] for one in made.all("progress")] == ["100"]
    assert f"../results/{done['result_id']}" in made.links()


def test_a_reader_can_stop_the_page_from_loading_itself(server: Live) -> None:
    """?refresh=off, and back."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    made = assert_page(server.http.get(f"/jobs/{job_id}?lang=en"))
    assert made.refresh is not None
    assert "?lang=en&refresh=off" in made.links()
    made = assert_page(server.http.get(f"/jobs/{job_id}?lang=en&refresh=off"))
    assert made.refresh is None
    assert "?lang=en" in made.links()
    GATES.open(gate)


def test_a_job_that_has_not_said_how_far_it_is_gets_no_figure(server: Live) -> None:
    """The bar has no value while nothing is known."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    made = assert_page(server.http.get(f"/jobs/{job_id}"))
    assert ["value" in one for one in made.all("progress")] == [False]
    assert "no progress reported yet" in made.text
    GATES.open(gate)


def test_a_failed_job_says_why_and_what_is_kept(server: Live) -> None:
    """Code with its page, message, hint, and the partial; nothing loads itself again."""
    job = server.wait(server.submit("failing", how="transient")["job_id"])
    made = assert_page(server.http.get(f"/jobs/{job['job_id']}"))
    assert made.refresh is None
    assert "../problems/network_error" in made.links()
    assert "upstream said no" in made.text
    assert "abcdef123456" not in made.text
    assert "Interim result v4 stays available." in made.text
    assert "This error may be temporary." in made.text
    assert "Next attempt scheduled" in made.text
    assert "3 of 3" in made.text


def test_a_code_of_the_analysis_own_is_no_dead_link(server: Live) -> None:
    """It is shown without a page about it."""
    job = server.wait(server.submit("failing", how="permanent")["job_id"])
    made = assert_page(server.http.get(f"/jobs/{job['job_id']}"))
    assert "address_intel" in made.text_of("code")
    assert "Error code of this analysis: address_intel" in made.text
    assert "../problems/address_intel" not in made.links()


def test_a_page_says_until_when_a_result_is_kept(server: Live) -> None:
    """In words, in both languages; and what was last heard of a job only where it said something."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    assert "The result is kept until 20" in assert_page(server.http.get(f"/jobs/{job['job_id']}")).text
    assert "bleibt bis 20" in assert_page(server.http.get(f"/jobs/{job['job_id']}?lang=de")).text
    server.http.post(f"/analyze/results/{job['result_id']}/hold")
    assert "The result is held" in assert_page(server.http.get(f"/jobs/{job['job_id']}")).text
    for partials in (0, 2):
        gate = new_id()
        running = server.submit("gated", gate=gate, partials=partials)["job_id"]
        GATES.wait_until_reached(gate)
        shown = assert_page(server.http.get(f"/jobs/{running}")).text
        assert ("Last sign of progress:" in shown) == bool(partials)
        GATES.open(gate)


@pytest.mark.parametrize(("seconds", "shown"), [(59, "Last sign of progress"), (125, "No progress for 2 min 5 s; the")])
def test_silence_is_named_with_its_length(seconds: int, shown: str) -> None:
    """From a minute on, while the worker renews its lease."""
    now = 1_800_000_000 * SECOND
    job = JobRecord(
        job_id="j", org_id="o", analysis="a", status=Status.RUNNING, priority_class="default", request_payload_hash="",
        request_payload_ref=INLINE_REF, queued_at=now - 900 * SECOND, updated_at=now, timeout_seconds=60, max_retries=3,
        trace_id="t", request_id="r", started_at=now - 900 * SECOND, attempt_started_at=now - 900 * SECOND, attempt=1,
    )  # fmt: skip
    said = Event(
        "o", "j", 3, "e", EventType.PROGRESS, now - seconds * SECOND, "worker", '{"progress_percent":5}', "", ""
    )
    observed = JobObservation(
        view=JobView(job, now + 9 * SECOND),
        moment=DerivedFields(Phase.WORKING, None, 2),
        now=now,
        events=[said],
        ahead=None,
        worker_seen=True,
    )
    headline = job_headline(observed, load_settings({}), load_language("en"))
    assert shown in str(headline.activity)


def test_a_canceled_job_says_who_and_why(server: Live) -> None:
    """In both languages."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=1)["job_id"]
    GATES.wait_until_reached(gate)
    server.http.post(f"/analyze/jobs/{job_id}/cancel", json={"reason": "wrong city"})
    server.wait(job_id)
    made = assert_page(server.http.get(f"/jobs/{job_id}"))
    assert "Canceled by a user." in made.text
    assert "wrong city" in made.text
    assert "Von einer Person abgebrochen." in assert_page(server.http.get(f"/jobs/{job_id}?lang=de")).text


def test_the_timeline_has_the_latest_hundred(server: Live) -> None:
    """Newest first; what is cut is said, with the way to all of it."""
    job = server.wait(server.submit("chunked", parts=300)["job_id"])
    made = assert_page(server.http.get(f"/jobs/{job['job_id']}"))
    assert job["event_seq"] > 100
    assert made.text.count("Progress\n") <= 101
    assert f"Not shown: {job['event_seq'] - 100} more." in made.text
    assert f"/analyze/jobs/{job['job_id']}/events" in made.links()


def test_a_repeated_job_leads_to_the_one_before(server: Live) -> None:
    """retry_of is a link."""
    first = server.wait(server.submit("failing", how="permanent")["job_id"])
    again = server.http.post(f"/analyze/jobs/{first['job_id']}/retry").json()["job"]
    made = assert_page(server.http.get(f"/jobs/{again['job_id']}"))
    assert f"../jobs/{first['job_id']}" in made.links()
    server.wait(again["job_id"])


def _said(text: str, *asked: str) -> str:
    """A page without when it was made, and without what its reader asked for, which it may lead back to."""
    for record_id in asked:
        text = text.replace(record_id, "…")
    return re.sub(r'<meta name="langlauf-now" content="[^"]*">', "", text)


@pytest.mark.parametrize("address", ["/jobs/{job}", "/results/{result}", "/results/{result}?view=requested"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_foreign_page_is_the_page_of_an_unknown_one(server: Live, address: str, language: str) -> None:
    """Status, headers and body are equal to the byte, for the same request id."""
    job = server.wait(server.submit("echo", "org-a", query="Bern")["job_id"], "org-a")
    headers = {"X-Org-Id": "org-b", "X-Request-Id": "same", "Accept-Language": language}
    foreign = server.http.get(address.format(job=job["job_id"], result=job["result_id"]), headers=headers)
    other = new_id()
    unknown = server.http.get(address.format(job=other, result=other), headers=headers)
    assert_page(foreign, 404)
    assert _said(foreign.text, job["job_id"], job["result_id"]) == _said(unknown.text, other)
    assert {k: v for k, v in foreign.headers.items() if k != "date"} == {
        k: v for k, v in unknown.headers.items() if k != "date"
    }
    assert foreign.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize(
    ("language", "notice", "event"),
    [
        ("en", "Further progress and interim results are not stored", "event limit reached"),
        ("de", "weitere Zwischenstände werden nicht gespeichert", "Grenze der Ereignisse erreicht"),
    ],
)
def test_a_job_past_its_bounds_says_so(bounded: Live, language: str, notice: str, event: str) -> None:
    """Beside its state, and in its log."""
    job = bounded.wait(bounded.submit("stepwise", gates=[_opened() for _ in range(9)])["job_id"])
    assert (job["status"], job["limit_reached"], job["partial_count"]) == ("completed", "events", 3)
    assert [one["payload_json"].get("limit") for one in job["events"]].count("events") == 1
    made = assert_page(bounded.http.get(f"/jobs/{job['job_id']}?lang={language}"))
    assert notice in made.text
    assert event in made.text


def _opened() -> str:
    name = new_id()
    GATES.open(name)
    return name


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose jobs may have ten events."""
    with live(tmp_path_factory.mktemp("bounded"), sample_app(), LANGLAUF_LIMITS="max_job_events=10") as running:
        yield running
