"""The plain client against a real server."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from langlauf.client import (
    BadRequest,
    Client,
    Conflict,
    JobCanceled,
    JobFailed,
    NotFound,
    RemoteJob,
    SubmitOptions,
    Unreachable,
    WaitTimeout,
)
from langlauf.client.job_text import job_html
from langlauf.domain.errors import SettingsError
from langlauf.domain.state import Status
from tests.client.lossy_relay import losing
from tests.support.server import ServerProcess


@pytest.fixture
def client(server: ServerProcess, org: str) -> Iterator[Client]:
    """A client for an org of its own."""
    with Client(server.url, org) as made:
        yield made


def until_step(job: RemoteJob, step: str) -> None:
    """Returns when the job says that it is there."""
    assert any(state.step == step for state in job.states(timeout=60))


def test_result_of_a_job(client: Client, org: str) -> None:
    """A value goes in and comes out."""
    job = client.submit("echo", value={"deep": [1, 2.5, None, "Zürich"]})
    assert job.result(timeout=60) == {"value": {"deep": [1, 2.5, None, "Zürich"]}, "org": org}


def test_default_analysis_with_a_mapping(client: Client) -> None:
    """Without a name the server chooses the analysis, and parameters may be a mapping."""
    job = client.submit(input={"value": 7})
    assert job.result(timeout=60)["value"] == 7
    assert job.accepted is not None
    assert job.accepted.analysis == "echo"


def test_large_result_comes_whole(client: Client) -> None:
    """A result that does not fit the status is fetched by itself."""
    assert client.submit("large", size=300_000).result(timeout=60) == "x" * 300_000


def test_null_is_a_result(client: Client) -> None:
    """None comes back as None, and not as a missing result."""
    assert client.submit("echo").result(timeout=60)["value"] is None


def test_options_reach_the_job(client: Client) -> None:
    """Priority, limits and retries are those of the options."""
    options = SubmitOptions(priority_class="expedite", timeout_seconds="2m", max_retries=1)
    accepted = client.submit("echo", options=options).accepted
    assert accepted is not None
    assert (accepted.priority_class, accepted.timeout_seconds, accepted.max_retries) == ("expedite", 120, 1)


def test_events_come_once_and_in_order(client: Client) -> None:
    """Followed live, the log has every number once and ends with the job."""
    events = list(client.submit("steps", count=20).events(timeout=60))
    assert [event.event_seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].event_type == "job.queued"
    assert events[-1].event_type == "job.completed"
    assert sum(event.event_type == "job.partial" for event in events) == 20


def test_events_over_several_pages(client: Client) -> None:
    """A log longer than a page, and longer than what a status brings along, has no gap."""
    job = client.submit("steps", count=900)
    job.wait(timeout=110)
    numbers = [event.event_seq for event in job.events()]
    assert len(numbers) > 1_000
    assert numbers == list(range(1, len(numbers) + 1))


def test_events_after_the_last_one_end_at_once(client: Client) -> None:
    """After the terminal event there are no more."""
    job = client.submit("echo")
    last = job.wait(timeout=60).event_seq
    assert list(job.events(after=last, timeout=60)) == []


def test_partials_are_seen_while_the_job_runs(client: Client, tmp_path: Path) -> None:
    """A partial is delivered before the job can end."""
    job = client.submit("steps", count=2, gate=str(tmp_path / "go"))
    partials = job.partials(timeout=60)
    assert next(partials).result == {"done": [0]}
    assert next(partials).result == {"done": [0, 1]}
    (tmp_path / "go").touch()
    assert list(partials) == []
    assert [snapshot.result_kind for snapshot in job.snapshots()] == ["partial", "partial", "final"]


def test_result_views(client: Client) -> None:
    """A partial's id leads to the final result, or to exactly that partial."""
    job = client.submit("steps", count=1)
    job.wait(timeout=60)
    partial, final = job.snapshots()
    assert client.get_result(partial.result_id).result_id == final.result_id
    assert client.get_result(partial.result_id, view="requested").result == {"done": [0]}
    assert client.get_views(partial.result_id, view="requested") == [{"kind": "markdown", "text": "[0]"}]
    assert client.get_views(partial.result_id) == []


def test_failed_job(client: Client) -> None:
    """Waiting tells how a job ended; only asking for its result raises."""
    job = client.submit("fail", how="permanent")
    assert job.wait(timeout=60).status is Status.FAILED
    with pytest.raises(JobFailed, match="the region is unknown") as failed:
        job.result()
    assert failed.value.code == "unknown_region"


def test_canceled_job(client: Client) -> None:
    """A canceled job says why, and canceling again changes nothing."""
    job = client.submit("hang")
    until_step(job, "hanging")
    job.cancel("enough")
    assert job.wait(timeout=60).status is Status.CANCELED
    again = job.cancel("again")
    assert (again.cancel_reason, again.events) == ("enough", job.status().events)
    with pytest.raises(JobCanceled, match="enough"):
        job.result()


def test_retry_makes_a_new_job(client: Client) -> None:
    """A job that has ended can be tried again; one that has not cannot."""
    job = client.submit("hang")
    with pytest.raises(Conflict) as refused:
        job.retry()
    assert refused.value.code == "not_terminal"
    job.cancel()
    job.wait(timeout=60)
    again = job.retry(resume=False)
    assert again.accepted is not None
    assert again.accepted.retry_of == job.job_id
    again.cancel()


def test_a_running_job_gets_a_receiver_of_mail(client: Client) -> None:
    """While it runs; after its end the server refuses."""
    job = client.submit("hang")
    until_step(job, "hanging")
    assert job.notify("anna@mail.example", "de").status is Status.RUNNING
    job.cancel()
    job.wait(timeout=60)
    with pytest.raises(Conflict) as refused:
        job.notify("anna@mail.example")
    assert refused.value.code == "has_ended"


def test_wait_gives_up_and_the_job_goes_on(client: Client, tmp_path: Path) -> None:
    """A timeout is the caller's, not the job's."""
    job = client.submit("gate", path=str(tmp_path / "go"))
    with pytest.raises(WaitTimeout, match="it goes on"):
        job.wait(timeout=0.2)
    (tmp_path / "go").touch()
    assert job.wait(timeout=60).status is Status.COMPLETED


def test_wait_without_time_looks_once(client: Client) -> None:
    """A timeout of nothing returns an end that is there, and else raises at once."""
    done = client.submit("echo")
    done.wait(timeout=60)
    assert done.wait(timeout=0).status is Status.COMPLETED
    job = client.submit("hang")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0)
    job.cancel()


def test_duplicate_names_the_existing_job(client: Client) -> None:
    """The same job twice is refused with a link to the first, unless it is allowed."""
    first = client.submit("hang", label="twice")
    with pytest.raises(Conflict) as refused:
        client.submit("hang", label="twice")
    assert refused.value.job is not None
    assert refused.value.job.job_id == first.job_id
    second = client.submit("hang", label="twice", options=SubmitOptions(allow_duplicate=True))
    assert second.job_id != first.job_id
    first.cancel()
    second.cancel()


def test_idempotency_key_gives_the_same_job(client: Client) -> None:
    """A key of the caller's own is used; with another payload it is a conflict."""
    options = SubmitOptions(idempotency_key="order-1")
    assert (
        client.submit("echo", value=1, options=options).job_id == client.submit("echo", value=1, options=options).job_id
    )
    with pytest.raises(Conflict, match="idempotency_mismatch"):
        client.submit("echo", value=2, options=options)


def test_lost_answer_makes_no_second_job(server: ServerProcess, org: str) -> None:
    """The server accepted the job and the answer was lost: repeating gives that job."""
    with losing(server.port) as relay, Client(relay.url, org) as client:
        job = client.submit("echo", value="once")
        assert relay.swallowed == 1
        assert [found.job_id for found in client.jobs()] == [job.job_id]


def test_jobs_over_pages(client: Client) -> None:
    """The list goes over pages, newest first, and stops at the limit."""
    made = [client.submit("echo", value=number).job_id for number in range(205)]
    assert [job.job_id for job in client.jobs()] == made[::-1]
    assert [job.job_id for job in client.jobs(limit=3)] == made[:-4:-1]
    assert list(client.jobs(analysis="hang")) == []


def test_notifications(client: Client) -> None:
    """A completed job has its message."""
    job = client.submit("echo")
    job.wait(timeout=60)
    (message,) = client.notifications(job.job_id, channel="in_app")
    assert message.template_key == "async.job.completed"


def test_inbox(client: Client) -> None:
    """What has ended, over all pages, and marked as read by id or up to an instant, in whatever zone it is given."""
    jobs = [client.submit("echo", value=number) for number in range(3)]
    for job in jobs:
        job.wait(timeout=60)
    found = list(client.inbox())
    assert sorted(one.job_id for one in found) == sorted(job.job_id for job in jobs)
    assert all(one.unread for one in found)
    marked = client.mark_read(found[0].notification_id)
    assert (marked.changed, marked.unread) == (True, 2)
    assert list(client.inbox(unread=True, limit=1)) == [found[1]]
    local = found[0].created_at.astimezone().replace(tzinfo=None)
    assert client.mark_read(until=local).unread == 0
    assert list(client.inbox(unread=True)) == []
    with pytest.raises(BadRequest):
        client.mark_read()


def test_bad_request_names_the_field(client: Client) -> None:
    """What is wrong with the input is told with its name and the request's id."""
    with pytest.raises(BadRequest) as refused:
        client.submit("steps", count="many")
    assert refused.value.field == "count"
    assert refused.value.request_id


def test_numbers_that_json_lacks_are_refused_here(client: Client) -> None:
    """NaN never turns into null on the way."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.submit("echo", value=math.nan)


def test_another_org_sees_nothing(server: ServerProcess, client: Client) -> None:
    """A job of one org does not exist for another."""
    job = client.submit("echo")
    with Client(server.url, "somebody-else") as other, pytest.raises(NotFound):
        other.job(job.job_id).status()


def test_no_server() -> None:
    """A server that never answered is not waited for, however patient the call."""
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unreachable, match="no server answers"):
        client.job("any").wait()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("localhost:8080", None, None), "LANGLAUF_URL"),
        ((None, "ö", None), "LANGLAUF_ORG"),
        ((None, None, "a\nb"), "LANGLAUF_KEY"),
    ],
)
def test_settings_that_cannot_work(given: tuple[str | None, ...], message: str) -> None:
    """A bad address or key is named when the client is made, not at the first request."""
    with pytest.raises(SettingsError, match=message):
        Client(*given)


def test_settings_from_the_environment(server: ServerProcess, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address and org come from the environment where they are not given."""
    monkeypatch.setenv("LANGLAUF_URL", server.url)
    monkeypatch.setenv("LANGLAUF_ORG", org)
    with Client() as client:
        assert client.submit("echo").result(timeout=60)["org"] == org


def test_run_returns_the_result(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    """One call submits and waits; without a terminal nothing is drawn."""
    assert client.run("echo", value=3)["value"] == 3
    assert capfd.readouterr().err == ""
    with pytest.raises(WaitTimeout):
        client.run("hang", timeout=0.2)


def test_jobs_as_they_end(client: Client, tmp_path: Path) -> None:
    """Each job comes once, in the order of their ends, however they ended; those that had ended come first."""
    done = client.submit("echo", value=1)
    done.wait(timeout=60)
    gate, failing = client.submit("gate", path=str(tmp_path / "go")), client.submit("fail", how="permanent")
    ended = client.as_completed([gate, failing, done], timeout=60)
    first = [next(ended).job_id, next(ended).job_id]
    assert sorted(first) == sorted([done.job_id, failing.job_id])
    (tmp_path / "go").touch()
    assert [job.job_id for job in ended] == [gate.job_id]
    assert list(client.as_completed([])) == []
    with pytest.raises(WaitTimeout):
        list(client.as_completed([client.submit("hang")], timeout=0.2))


def test_a_failure_says_what_happened(client: Client) -> None:
    """The error has the job, its message and what it had found before."""
    job = client.submit("fail", how="permanent", partials=2)
    with pytest.raises(JobFailed) as failed:
        job.result(timeout=60)
    failure = failed.value
    assert (failure.job_id, failure.url) == (job.job_id, job.url)
    assert failure.message == failure.state.error_message
    assert failure.last_partial is not None
    assert failure.last_partial.result_seq == 2
    assert job.url in str(failure)
    with pytest.raises(JobFailed) as failed:
        client.run("fail", how="permanent")
    assert failed.value.last_partial is None


def test_a_notebook_shows_a_job(client: Client) -> None:
    """State, progress and a link, with the words of analyses escaped; an unreachable server is told, not raised."""
    job = client.submit("fail", how="permanent")
    state = job.wait(timeout=60)
    shown = job._repr_html_()
    assert 'href="' + job.url in shown
    assert "failed" in shown
    hostile = msgspec.structs.replace(state, step="<script>alert(1)</script>", error_message='"><img onerror=x>')
    assert "<script" not in job_html(hostile, job.url)
    assert "<img" not in job_html(hostile, job.url)
    with Client("http://127.0.0.1:9") as nowhere:
        assert "no server answers" in nowhere.job("<b>")._repr_html_()
        assert "<b>" not in nowhere.job("<b>")._repr_html_()
