"""A scrape of a real server under a small load: every metric of the page is there, and tells what happened."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from langlauf import Langlauf
from tests.docs.pages import read, rows, words
from tests.http.keyed_server import lose_store
from tests.http.test_errors import assert_problem
from tests.support.event_stream import port_of, stream_of
from tests.support.keys import bearer
from tests.support.live import GATES, Live, live, sample_app
from tests.support.metrics_scrape import MetricsScrape, read_scrape
from tests.support.plain_app import dies
from tests.support.processes import eventually

QUICK = {
    "LANGLAUF_MAX_RUNNING": "3",
    "LANGLAUF_LEASE_SECONDS": "10",
    "LANGLAUF_SWEEP_SECONDS": "0.1",
    "LANGLAUF_POLL_SECONDS": "0.1",
    "LANGLAUF_CANCEL_GRACE": "0.1",
    "LANGLAUF_LIMITS": "retention_every=0.2",
    "ASYNC_JOB_RESULTS_RETENTION_SECONDS": "0",
    "LANGLAUF_MAX_WAITING_PER_ORG": "2",
    "LANGLAUF_METRICS_ORGS": "1",
    "LANGLAUF_SHUTDOWN_GRACE": "0",
}
_TAKE_LEASE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as file:
    file.execute("UPDATE job_rows SET lease_expires_at = 1 WHERE job_id = ?", sys.argv[2:])
"""
#: What a store of the other kind tells, and what a due schedule tells: tests/http/test_schedules.py has one.
_ELSEWHERE = {"langlauf_store_connections", "langlauf_schedule_delay_seconds"}


def scrape(server: Live) -> MetricsScrape:
    """All metrics now."""
    return read_scrape(server.http.get("/metrics").text)


def scrape_after(server: Live, before: MetricsScrape, ended: int, swept: int = 0) -> MetricsScrape:
    """What was added, once so many attempts have ended and jobs were swept: a caller may hear of these sooner."""
    deadline = time.monotonic() + 60
    while (told := scrape(server).since(before)).value("langlauf_attempts_ended_total") < ended or told.value(
        "langlauf_jobs_swept_total"
    ) < swept:
        assert time.monotonic() < deadline, told.by("langlauf_attempts_ended_total", "outcome")
    return told


def _app() -> Langlauf:
    app = sample_app()
    app.analysis(max_retries=0)(dies)
    return app


def test_every_metric_is_told_and_is_right(tmp_path: Path) -> None:
    """Jobs that complete, fail, are tried again, are canceled, lose their lease and die; one streams, one polls."""
    with live(tmp_path, _app(), **QUICK) as server:
        before = scrape(server)
        _end_in_every_way(server, tmp_path)
        _refuse_in_every_way(server)
        _lose_a_lease(server, tmp_path)
        told = scrape_after(server, before, ended=23, swept=1)
        _assert_ends(told)
        _assert_counted(told)
        with _at_work(server):
            eventually(lambda: _levels_are_told(scrape(server)))  # what was read a moment ago may still be told
            now = scrape(server)
        _assert_levels(now)
        _assert_all_of_the_page(now)


def _end_in_every_way(server: Live, folder: Path) -> None:
    for number in range(3):
        server.wait(server.submit("echo", query=f"{number}")["job_id"])
    for how in ("permanent", "unstorable", "broken", "transient"):
        server.wait(server.submit("failing", how=how)["job_id"])
    for times, gate in ((1, "once"), (3, "often")):
        job = server.submit("dies", how="exit", times=times, file=str(folder / gate))
        server.wait(job["job_id"])
    for analysis in ("gated", "deaf"):  # one stops when asked to, one does not
        job_id = server.submit(analysis, gate=f"never-{analysis}")["job_id"]
        GATES.wait_until_reached(f"never-{analysis}")
        server.http.post(f"/analyze/jobs/{job_id}/cancel")
        assert server.wait(job_id)["status"] == "canceled"
    GATES.open("never-deaf")


def _refuse_in_every_way(server: Live) -> None:
    """Three run, two wait; whatever else comes is refused, and all of them are canceled."""
    runs = [server.submit("gated", gate=f"full-{number}")["job_id"] for number in range(3)]
    for number in range(3):
        GATES.wait_until_reached(f"full-{number}")
    waits = [server.submit("echo", query=f"waits-{number}")["job_id"] for number in range(2)]
    asked: list[tuple[dict[str, Any], dict[str, str], int, str]] = [
        ({"analysis": "echo", "query": "one more"}, {}, 429, "queue_full"),
        ({"analysis": "gated", "input": {"gate": "full-0"}}, {}, 409, "duplicate_job"),
        ({"analysis": "nothing", "query": "x"}, {}, 400, "bad_request"),
    ]
    for body, headers, status, code in asked:
        answer = server.http.post("/analyze", json=body, headers={"Prefer": "respond-async", **headers})
        assert_problem(answer, status, code)
    for job_id in waits:
        server.http.post(f"/analyze/jobs/{job_id}/cancel")
        server.http.post(f"/analyze/jobs/{job_id}/cancel")  # asked again, nothing happens again
    keyed = {"Prefer": "respond-async", "Idempotency-Key": '"metrics"', "X-Org-Id": "org-b"}
    for query, status in (("a", 202), ("a", 202), ("b", 422)):
        sent = server.http.post("/analyze", json={"analysis": "echo", "query": query}, headers=keyed)
        assert sent.status_code == status
    for number in range(3):
        GATES.open(f"full-{number}")
    for job_id in runs:
        assert server.wait(job_id)["status"] == "completed"
    server.wait(sent_id(server), "org-b")


def sent_id(server: Live) -> str:
    """The one job of org-b."""
    found: str = server.http.get("/analyze/jobs", headers={"X-Org-Id": "org-b"}).json()["jobs"][0]["job_id"]
    return found


def _lose_a_lease(server: Live, folder: Path) -> None:
    """As if the worker had been silent for too long: the sweep takes the job, and another attempt ends it."""
    job_id = server.submit("gated", gate="lost")["job_id"]
    GATES.wait_until_reached("lost")
    # Another process: two SQLite libraries in one would take each other's locks away.
    subprocess.run([sys.executable, "-c", _TAKE_LEASE, folder / "store.db", job_id], check=True)
    while server.job(job_id)["attempt"] < 2:
        time.sleep(0.02)
    GATES.open("lost")
    assert server.wait(job_id)["status"] == "completed"


def _assert_ends(told: MetricsScrape) -> None:
    assert told.by("langlauf_jobs_ended_total", "analysis", "status", "code") == {
        "echo completed": 4,
        "gated completed": 4,
        "failing failed other": 1,  # a code of its own
        "failing failed result_unstorable": 1,
        "failing failed internal": 1,
        "failing failed network_error": 1,
        "dies completed": 1,
        "dies failed worker_lost": 1,
        "gated canceled": 1,
        "deaf canceled": 1,
        "echo canceled": 2,
    }
    assert told.by("langlauf_attempts_ended_total", "outcome") == {
        "completed": 9,
        "failed": 4,
        "retry": 3,
        "crashed": 4,
        "canceled": 2,
        "lost": 1,
    }
    assert told.value("langlauf_attempts_started_total") == 23
    assert told.by("langlauf_jobs_swept_total", "outcome") == {"lost": 1}


def _assert_counted(told: MetricsScrape) -> None:
    assert told.by("langlauf_submissions_total", "outcome") == {
        "accepted": 18,
        "queue_full": 1,
        "duplicate": 1,
        "invalid": 1,
        "replayed": 1,
        "idempotency_mismatch": 1,
    }
    assert told.value("langlauf_attempts_abandoned_total") == 1
    assert told.value("langlauf_process_deaths_total") == 4
    # Two never started, and a second attempt has not waited for the first one.
    assert told.value("langlauf_job_wait_seconds_count") == 16
    assert told.value("langlauf_attempt_seconds_count") == 22
    assert told.value("langlauf_claim_to_start_seconds_count") == 23
    asked = told.by("langlauf_http_request_seconds_count", "operation", "status")
    assert (asked["analyze 2xx"], asked["analyze 4xx"], asked["cancelJob 2xx"]) == (19, 4, 6)
    assert told.value("langlauf_http_request_seconds_bucket", operation="analyze", le="+Inf") == 23
    assert told.value("langlauf_store_batch_operations_sum", queue="writes") >= 100
    assert told.value("langlauf_store_batch_seconds_sum", queue="writes") > 0
    assert told.value("langlauf_store_operations_failed_total") == 0
    assert told.value("langlauf_duty_runs_total", duty="sweep", outcome="done") > 5
    assert told.value("langlauf_duty_runs_total", outcome="failed") == 0
    assert told.value("langlauf_retention_removed_total", kind="results") >= 9
    assert told.value("langlauf_log_events_total", event="attempt_lost") == 1


@contextmanager
def _at_work(server: Live) -> Iterator[None]:
    """Three that run, one that waits, a stream and a poll."""
    runs = [server.submit("gated", "acme", gate=f"work-{number}")["job_id"] for number in range(3)]
    for number in range(3):
        GATES.wait_until_reached(f"work-{number}")
    waits = server.submit("echo", "other", query="waits")["job_id"]
    body = {"query": "later", "options": {"async_mode": {"delay_seconds": "1d"}}}
    assert server.http.post("/analyze", json=body, headers={"X-Org-Id": "later"}).status_code == 202
    opened, closing = threading.Event(), threading.Event()

    async def follow() -> None:
        async with stream_of(port_of(server.url), runs[0], X_Org_Id="acme") as stream:
            await stream.next()
            opened.set()
            await asyncio.to_thread(closing.wait)

    following = threading.Thread(target=lambda: asyncio.run(follow()))
    polling = threading.Thread(target=server.job, args=(waits, "other"), kwargs={"wait": 30})
    following.start()
    polling.start()
    assert opened.wait(60)
    try:
        yield
    finally:
        closing.set()
        for number in range(3):
            GATES.open(f"work-{number}")
        following.join()
        polling.join()
        server.wait(waits, "other")


def _levels_are_told(now: MetricsScrape) -> bool:
    waiting, running = (now.by(f"langlauf_jobs_{state}", "analysis") for state in ("waiting", "running"))
    counts = (now.value("langlauf_polls_open"), now.value("langlauf_worker_slots_busy"))
    return (waiting, running, counts) == ({"echo": 1}, {"gated": 3}, (1, 3))


def _assert_levels(now: MetricsScrape) -> None:
    assert now.by("langlauf_jobs_waiting", "analysis") == {"echo": 1}
    assert now.by("langlauf_jobs_scheduled", "analysis") == {"echo": 1}
    assert now.by("langlauf_jobs_running", "analysis") == {"gated": 3}
    assert now.value("langlauf_jobs_running_limit") == 3
    assert 0 < now.value("langlauf_oldest_waiting_seconds") <= now.value("langlauf_oldest_attempt_seconds") < 3_600
    assert now.by("langlauf_org_jobs_waiting", "org") == {"other": 1}  # an org may have that name
    assert now.by("langlauf_org_jobs_running", "org") == {"acme": 3}
    assert now.by("langlauf_workers", "state") == {"working": 1}
    assert (now.value("langlauf_worker_slots"), now.value("langlauf_worker_slots_busy")) == (3, 3)
    assert (now.value("langlauf_streams_open"), now.value("langlauf_polls_open")) == (1, 1)
    assert (now.value("langlauf_store_up"), now.value("langlauf_build_info", store="sqlite")) == (1, 1)
    assert (now.value("langlauf_jobs_waiting_for_retry"), now.value("langlauf_leases_overdue")) == (0, 0)
    assert now.value("langlauf_store_file_bytes") > 0
    assert now.value("langlauf_store_log_bytes") > 0
    ages = now.by("langlauf_duty_success_age_seconds", "duty")
    assert ages.keys() == {
        "sweep",
        "schedules",
        "alarm",
        "store health",
        "retention",
        "followers",
        "key uses",
        "deliveries",
    }
    assert ages["sweep"] < 5
    assert now.value("langlauf_duty_interval_seconds", duty="sweep") == 0.1


def _assert_all_of_the_page(now: MetricsScrape) -> None:
    """Each metric is told with its type, and each has something to tell, what belongs to another store aside."""
    page = {words(cells[0])[0]: cells[1].partition(",")[0] for cells in rows(read("docs/metrics.md"))}
    assert now.kinds == page
    # Metrics belong to the process, in which tests of schedules may have run before.
    assert page.keys() - now.names <= _ELSEWHERE <= page.keys()


def test_orgs_are_not_named_unless_that_is_wished(tmp_path: Path) -> None:
    """Nor is anything else that a caller chose."""
    with live(tmp_path) as server:
        job = server.submit("echo", "acme-secret", query="Bahnhofstrasse")
        server.wait(job["job_id"], "acme-secret")
        text = server.http.get("/metrics").text
        for word in ("acme-secret", "Bahnhofstrasse", job["job_id"]):
            assert word not in text


@pytest.mark.parametrize("token", ["a-long-operators-token", None])
def test_a_scrape_goes_on_while_the_store_is_away(token: str | None, tmp_path: Path) -> None:
    """What the process knows is told, and that the store is not there; nobody else is let in for it."""
    settings = {} if token is None else {"API_AUTH_TOKEN": token}
    shown = {} if token is None else bearer(token)
    with live(tmp_path, **settings) as server:
        assert read_scrape(server.http.get("/metrics", headers=shown).text).value("langlauf_store_up") == 1
        lose_store(server)
        # What was read a moment ago may still be told.
        eventually(lambda: "langlauf_store_up 0" in server.http.get("/metrics", headers=shown).text)
        answer = server.http.get("/metrics", headers=shown)
        now = read_scrape(answer.text)
        assert (answer.status_code, now.value("langlauf_store_up")) == (200, 0)
        assert "langlauf_jobs_waiting" not in now.names
        assert now.value("process_resident_memory_bytes") > 0
        assert now.value("langlauf_duty_interval_seconds", duty="sweep") == 5
        assert server.http.get("/analyze/jobs", headers=shown).status_code == 503
        if token is not None:
            assert server.http.get("/metrics").status_code in {401, 503}


def test_both_formats_tell_the_same(server: Live) -> None:
    """Each is read by its own strict parser."""
    asked = {"Accept": "application/openmetrics-text; version=1.0.0"}
    openmetrics = read_scrape(server.http.get("/metrics", headers=asked).text, openmetrics=True)
    assert openmetrics.kinds == scrape(server).kinds
    assert openmetrics.names == scrape(server).names
