"""Spans: one trace over the processes that a job goes through, in words that tell nothing of what it works on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.server import command, environment, serving, working
from tests.worker.otel_collector import Collector, collecting

APP = "tests.support.traced_app:app"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{CALLER}-01"
OTHER = "0af7651916cd43dd8448eb211c80319c"
#: Jobs by the story that is told of them.
JOBS: dict[str, dict[str, Any]] = {
    "parts": {"analysis": "parts"},
    "plain": {"analysis": "plain_parts"},
    "broken": {"analysis": "parts", "fails": True},
}


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, dict[str, Any]]]:
    """Spans and answers of jobs that a server accepted and a worker ran, after both have stopped."""
    store = tmp_path_factory.mktemp("traced") / "store.db"
    answers: dict[str, Any] = {}
    with collecting() as collector:
        tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with (
            serving(store, app=APP, settings={"LANGLAUF_WORKERS": "0", **tracing}) as server,
            working(store, app=APP, settings={**tracing, "OTEL_SERVICE_NAME": "elsewhere"}),
            httpx2.Client(base_url=server.url, timeout=60) as http,
        ):
            for name, body in JOBS.items():
                headers = {"traceparent": PARENT, "tracestate": "rojo=1"}
                answers[name] = http.post("/analyze", json=body, headers=headers).json()
            notify = {"async_mode": {"notify": {"email": "somebody@mail.example"}}}
            told = http.post("/analyze", json={**JOBS["parts"], "options": notify}, headers=headers).json()
            while (
                http.get(f"/analyze/jobs/{told['job_id']}/notifications?channel=email").json()["notifications"][0][
                    "delivery_status"
                ]
                == "pending"
            ):
                continue  # each look is a request; the next round of the sender ends it
            answers["told"] = told
            answers["alone"] = http.post("/analyze", json=JOBS["parts"]).json()
            unsampled = {"traceparent": f"00-{OTHER}-{CALLER}-00"}
            answers["unsampled"] = http.post("/analyze", json=JOBS["parts"], headers=unsampled).json()
        yield collector, answers


def _of(collector: Collector, job_id: str) -> dict[str, list[dict[str, Any]]]:
    """The spans of a job by their names."""
    mine = [one for one in collector.spans if one["facts"].get("langlauf.job_id") == job_id]
    return {name: collector.named_in(mine, name) for name in {one["name"] for one in mine}}


@pytest.mark.parametrize("name", ["parts", "plain"])
def test_a_job_is_one_trace_over_all_processes(stories: tuple[Collector, dict[str, Any]], name: str) -> None:
    """Submission below the caller's span; claim and attempt below the submission; chunks below the attempt."""
    collector, answers = stories
    spans = _of(collector, answers[name]["job_id"])
    [submitted], [claimed], [attempt] = (spans[f"langlauf.{one}"] for one in ("submit", "claim", "attempt"))
    chunks = spans["langlauf.chunk"]
    assert {one["trace_id"] for all_of in spans.values() for one in all_of} == {TRACE}
    assert submitted["parent_id"] == CALLER
    assert claimed["parent_id"] == attempt["parent_id"] == submitted["span_id"]
    assert [one["parent_id"] for one in chunks] == [attempt["span_id"]] * 3
    assert chunks[0]["facts"]["langlauf.key"] == "first"
    for one in chunks:
        assert attempt["began"] <= one["began"] <= one["ended"] <= attempt["ended"]
    assert attempt["facts"]["langlauf.outcome"] == "completed"
    assert attempt["failed"] is None
    # What the analysis carries on is the attempt's.
    assert answers[name]["result"]["traceparent"] == f"00-{TRACE}-{attempt['span_id']}-01"


def test_a_delivery_is_part_of_the_story(stories: tuple[Collector, dict[str, Any]]) -> None:
    """A delivery is a child span of the submission; one that failed has the error."""
    collector, answers = stories
    spans = _of(collector, answers["told"]["job_id"])
    [submitted], [sent] = spans["langlauf.submit"], spans["langlauf.deliver"]
    assert (sent["trace_id"], sent["parent_id"]) == (TRACE, submitted["span_id"])
    assert (sent["facts"]["langlauf.channel"], sent["failed"]) == ("email", "suppressed")
    assert "mail.example" not in str(collector.spans)


def test_a_span_of_a_failure_has_only_its_code(stories: tuple[Collector, dict[str, Any]]) -> None:
    """No input, no text of an error, no exception is in any span."""
    collector, answers = stories
    spans = _of(collector, answers["broken"]["job_id"])
    [attempt] = spans["langlauf.attempt"]
    assert attempt["failed"] == "validation_error"
    unfinished = [one for one in spans["langlauf.chunk"] if one["failed"] == "unfinished"]
    assert unfinished
    assert "xyzzy" not in str(collector.spans)
    assert {one["events"] for one in collector.spans} == {0}


def test_without_a_caller_a_trace_begins(stories: tuple[Collector, dict[str, Any]]) -> None:
    """The job has the id of the trace that was begun for it."""
    collector, answers = stories
    spans = _of(collector, answers["alone"]["job_id"])
    [submitted] = spans["langlauf.submit"]
    assert submitted["parent_id"] is None
    assert {one["trace_id"] for all_of in spans.values() for one in all_of} == {submitted["trace_id"]}
    assert answers["alone"]["result"]["traceparent"].split("-")[1] == submitted["trace_id"]


def test_what_the_caller_does_not_record_is_not_recorded_here(stories: tuple[Collector, dict[str, Any]]) -> None:
    """The analysis still carries the trace on, with that wish."""
    collector, answers = stories
    assert _of(collector, answers["unsampled"]["job_id"]) == {}
    carried = answers["unsampled"]["result"]["traceparent"].split("-")
    assert (carried[1], carried[3]) == (OTHER, "00")


def test_each_process_says_who_it_is(stories: tuple[Collector, dict[str, Any]]) -> None:
    """By OpenTelemetry's own variables, else by ours."""
    collector, _ = stories
    assert {one["service.name"] for one in collector.resources} == {"langlauf", "elsewhere"}


def test_a_collector_without_the_library_is_refused_with_the_next_step(tmp_path: Path) -> None:
    """A program that was told to trace and cannot does not start."""
    hidden = tmp_path / "opentelemetry"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden', name='opentelemetry')\n", "utf-8")
    env = environment(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    env["PYTHONPATH"] = os.pathsep.join((str(tmp_path), env["PYTHONPATH"]))
    words = command("serve", APP, "--port", "0", "--store", str(tmp_path / "store.db"))
    tried = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert tried.returncode == 1
    assert "pip install 'langlauf[otel]'" in tried.stderr
