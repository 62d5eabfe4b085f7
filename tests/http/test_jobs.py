"""Jobs over HTTP: status, waiting, lists, logs, messages, cancel and retry."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langlauf.clock import new_id
from tests.support.live import COMPUTED, GATES, Live
from tests.support.processes import eventually

pytestmark = pytest.mark.both_stores
HIDDEN = {"request_payload_ref", "lost_count", "imported_at", "idempotency_key", "lease_token", "worker_id"}
PROMISED = {
    "job_id", "org_id", "analysis", "requested_by_user_id", "api_key_id", "status", "priority_class",
    "request_payload_hash", "progress_percent", "step", "estimated_seconds", "partial_count", "error_count",
    "result_id", "queued_at", "started_at", "attempt_started_at", "finished_at", "updated_at", "cancel_requested_at",
    "canceled_at", "canceled_by", "cancel_reason", "failed_at", "error_code", "error_message", "error_meta",
    "retryable", "retry_hint", "retry_count", "max_retries", "last_retry_at", "retry_reason", "next_attempt_at",
    "timeout_seconds", "retry_of", "based_on", "attempt", "trace_id", "request_id", "event_seq", "phase", "events",
    "result", "status_url", "result_url",
}  # fmt: skip


def test_a_status_shows_everything_a_client_may_see(server: Live) -> None:
    """All fields of the record except the inner ones, with events, result and links."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    assert set(job) >= PROMISED
    assert not HIDDEN & set(job)
    assert job["result"]["query"] == "Bern"
    assert [event["event_type"] for event in job["events"]] == ["job.queued", "job.running", "job.completed"]
    assert [event["event_seq"] for event in job["events"]] == [1, 2, 3]
    assert (job["phase"], job["progress_percent"], job["event_seq"]) == ("done", 100, 3)
    assert job["result_url"] == f"/analyze/results/{job['result_id']}"
    assert job["queued_at"].endswith("Z")


def test_partials_can_be_watched(server: Live) -> None:
    """While the job runs its state, percent, step and snapshots are there; the result is not."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=3)["job_id"]
    GATES.wait_until_reached(gate)
    job = server.job(job_id)
    assert (job["status"], job["phase"], job["partial_count"], job["progress_percent"]) == ("partial", "working", 3, 30)
    assert (job["step"], job["result"]) == ("part 3", None)
    assert job["estimated_seconds"] is not None
    snapshots = server.http.get(f"/analyze/jobs/{job_id}/results").json()["results"]
    assert [(one["result_kind"], one["result_seq"], one["summary_json"]) for one in snapshots] == [
        ("partial", 1, {"n": 1}),
        ("partial", 2, {"n": 2}),
        ("partial", 3, {"n": 3}),
    ]
    assert snapshots[-1]["result_id"] == job["result_id"]
    GATES.open(gate)
    server.wait(job_id)


def test_an_unchanged_job_is_not_sent_again(server: Live) -> None:
    """A weak ETag; If-None-Match gives 304 with when to ask again."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    path = f"/analyze/jobs/{job['job_id']}"
    first = server.http.get(path)
    assert first.headers["etag"].startswith('W/"')
    assert first.headers["cache-control"] == "private, no-cache"
    again = server.http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert {"etag", "retry-after", "vary", "cache-control"} <= set(again.headers)
    assert server.http.get(path, headers={"If-None-Match": 'W/"0-waiting"'}).status_code == 200


def test_a_long_poll_answers_at_the_change(server: Live) -> None:
    """?wait holds the answer until the job differs from what the caller has."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    path = f"/analyze/jobs/{job_id}"
    etag = server.http.get(path).headers["etag"]
    assert server.app.runtime is not None
    places = server.app.runtime.services.followers.slots
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(server.http.get, path, params={"wait": 30}, headers={"If-None-Match": etag})
        eventually(lambda: places.taken("poll") == 1)
        assert not poll.done()
        GATES.open(gate)
        opened_at = time.monotonic()
        response = poll.result()
    assert (response.status_code, response.json()["job"]["status"]) == (200, "completed")
    assert time.monotonic() - opened_at < 25, "it was answered at the change, not at the end of its time"


def test_a_long_poll_without_a_change_is_answered_in_time(server: Live) -> None:
    """When the time is over: 304 to whoever has the ETag, else the job as it is."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    path = f"/analyze/jobs/{job_id}"
    etag = server.http.get(path).headers["etag"]
    assert server.http.get(path, params={"wait": 1}, headers={"If-None-Match": etag}).status_code == 304
    assert server.http.get(path, params={"wait": 1}).json()["job"]["status"] == "running"
    GATES.open(gate)


@pytest.mark.parametrize("wait", ["31", "-1", "x", "1.5", "", "٣"])
def test_a_bad_wait_is_refused(server: Live, wait: str) -> None:
    """0 to 30 whole seconds, nothing else."""
    job_id = server.submit("echo", query="Bern")["job_id"]
    response = server.http.get(f"/analyze/jobs/{job_id}", params={"wait": wait})
    assert (response.status_code, response.json()["field"]) == (400, "wait")


def _with_events_alone(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job without what only its status has."""
    return {name: value for name, value in job.items() if name not in ("result", "kept_parts", "total_parts")}


def test_a_waiting_job_is_canceled_at_once_and_a_running_one_soon(server: Live) -> None:
    """202 while it stops, 200 when it has; repeated calls are stable."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=1)["job_id"]
    GATES.wait_until_reached(gate)
    path = f"/analyze/jobs/{job_id}/cancel"
    first = server.http.post(path, json={"reason": "changed my mind"})
    assert first.status_code in (200, 202)
    assert first.headers["content-location"] == f"/analyze/jobs/{job_id}"
    assert (first.status_code == 200) == (first.json()["job"]["status"] == "canceled")
    assert "job.cancel_requested" in [event["event_type"] for event in first.json()["job"]["events"]]
    job = server.wait(job_id)
    assert (job["status"], job["canceled_by"], job["cancel_reason"]) == ("canceled", "user", "changed my mind")
    assert [event["event_type"] for event in job["events"]][-2:] == ["job.cancel_requested", "job.canceled"]
    again = server.http.post(path)
    assert (again.status_code, again.json()["job"]) == (200, _with_events_alone(job))
    snapshot = server.http.get(f"/analyze/results/{job['result_id']}").json()
    assert (snapshot["job_status"], snapshot["cancel_reason"]) == ("canceled", "changed my mind")


def test_a_finished_job_stays_finished(server: Live) -> None:
    """A cancel after the end answers with the end."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    response = server.http.post(f"/analyze/jobs/{job['job_id']}/cancel")
    assert job["result"] is not None
    assert (response.status_code, response.json()["job"]) == (200, _with_events_alone(job))


def test_a_cancel_has_the_latest_events(server: Live) -> None:
    """As many as the status has, ascending, also while the job is stopping."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=99)["job_id"]
    GATES.wait_until_reached(gate)
    stopping = server.http.post(f"/analyze/jobs/{job_id}/cancel").json()["job"]
    numbers = [event["event_seq"] for event in stopping["events"]]
    assert numbers == list(range(stopping["event_seq"] - 99, stopping["event_seq"] + 1))
    assert set(stopping) == set(_with_events_alone(server.wait(job_id)))


def test_an_analysis_may_be_not_cancelable(server: Live) -> None:
    """409 not_cancelable, and the job goes on."""
    gate = new_id()
    job_id = server.submit("stubborn", gate=gate)["job_id"]
    response = server.http.post(f"/analyze/jobs/{job_id}/cancel")
    assert (response.status_code, response.json()["error"]) == (409, "not_cancelable")
    GATES.open(gate)
    assert server.wait(job_id)["status"] == "completed"


def test_transient_failures_are_retried_inside_the_job(server: Live) -> None:
    """The job stays in its state, counts its retries and fails when they are used up; secrets are masked."""
    job = server.wait(server.submit("failing", how="transient")["job_id"])
    assert (job["status"], job["attempt"], job["retry_count"], job["error_count"]) == ("failed", 4, 3, 4)
    assert (job["retryable"], job["retry_hint"]) == (True, "retry_with_backoff")
    kinds = [event["event_type"] for event in job["events"]]
    assert kinds.count("job.retry_scheduled") == kinds.count("job.attempt_started") == 3
    assert job["error_message"] == "upstream said no, token=[redacted]"
    assert job["error_meta"].keys() == {"trace"}  # on an open loopback server


def test_a_retry_resumes_with_the_finished_chunks(server: Live) -> None:
    """POST retry makes a new job; what was checkpointed is not computed again, unless resume is false."""
    org = new_id()
    first = server.wait(server.submit("chunked", org, parts=4, fail_at=2)["job_id"], org)
    assert first["status"] == "failed"
    path = f"/analyze/jobs/{first['job_id']}/retry"
    response = server.http.post(path, headers={"X-Org-Id": org})
    made = response.json()["job"]
    assert (response.status_code, made["retry_of"]) == (202, first["job_id"])
    assert made["job_id"] != first["job_id"]
    assert response.headers["location"] == made["status_url"]
    assert server.wait(made["job_id"], org)["status"] == "failed"
    assert {part: COMPUTED[f"{org}-{part}"] for part in range(4)} == {0: 1, 1: 1, 2: 0, 3: 0}
    response = server.http.post(path, json={"resume": False}, headers={"X-Org-Id": org})
    server.wait(response.json()["job"]["job_id"], org)
    assert COMPUTED[f"{org}-0"] == 2


def test_only_an_ended_job_can_be_retried(server: Live) -> None:
    """409 not_terminal before."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    response = server.http.post(f"/analyze/jobs/{job_id}/retry")
    assert (response.status_code, response.json()["error"]) == (409, "not_terminal")
    GATES.open(gate)


def test_the_log_is_read_page_by_page(server: Live) -> None:
    """after and limit give every event once; a cursor past the end is refused."""
    job = server.wait(server.submit("chunked", parts=5)["job_id"])
    path = f"/analyze/jobs/{job['job_id']}/events"
    seen: list[int] = []
    after = 0
    while True:
        page = server.http.get(path, params={"after": after, "limit": 3}).json()
        if not page["events"]:
            break
        seen += [event["event_seq"] for event in page["events"]]
        after = page["next_after"]
    assert seen == list(range(1, job["event_seq"] + 1))
    assert page["expired"] is False
    assert server.http.get(path, params={"after": job["event_seq"] + 1}).status_code == 400
    assert server.http.get(path, params={"after": "x"}).status_code == 400


def test_messages_are_read_only(server: Live) -> None:
    """One in-app record for an end, latest first; reading it changes nothing; bad values are refused."""
    job = server.wait(server.submit("failing", how="permanent")["job_id"])
    path = f"/analyze/jobs/{job['job_id']}/notifications"
    [message] = server.http.get(path).json()["notifications"]
    assert (message["channel"], message["template_key"]) == ("in_app", "async.job.failed")
    assert (message["delivery_status"], message["attempt_count"]) == ("pending", 0)
    assert message["dedupe_key"] == f"{job['job_id']}:in_app:async.job.failed"
    payload = message["payload_json"]
    assert set(payload) == {
        "job_id", "status", "result_id", "progress_percent", "error_code", "retry_hint", "finished_at",
    }  # fmt: skip
    assert payload["error_code"] == "address_intel"
    assert server.http.get(path).json()["notifications"] == [message]
    assert server.http.get(path, params={"channel": "email"}).json()["notifications"] == []
    for bad in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"channel": "pigeon"}):
        assert server.http.get(path, params=bad).status_code == 400


def test_jobs_are_listed_with_pages(server: Live) -> None:
    """Newest first, without events and result; the link leads to the next page until there is none."""
    org = new_id()
    made = [server.submit("echo", org, query=f"place {number}")["job_id"] for number in range(5)]
    for job_id in made:
        server.wait(job_id, org)
    url: str | None = "/analyze/jobs?limit=2"
    seen: list[dict[str, Any]] = []
    while url:
        response = server.http.get(url, headers={"X-Org-Id": org})
        seen += response.json()["jobs"]
        link = response.headers.get("link")
        assert (link is None) == (response.json()["next_cursor"] is None)
        url = link.split(">")[0].removeprefix("<") if link else None
    assert [job["job_id"] for job in seen] == made[::-1]
    assert "events" not in seen[0]
    assert "result" not in seen[0]
    one = server.http.get("/analyze/jobs", params={"q": "place 3"}, headers={"X-Org-Id": org}).json()["jobs"]
    assert [job["job_id"] for job in one] == [made[3]]
    for bad in ({"cursor": "x"}, {"cursor": "aGVsbG8"}, {"status": "done"}, {"limit": 500}, {"order": "asc"}):
        assert server.http.get("/analyze/jobs", params=bad, headers={"X-Org-Id": org}).status_code == 400
