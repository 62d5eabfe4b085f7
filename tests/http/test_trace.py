"""A job carries on the trace of its request: into the analysis, its events, the log, and not into another's retry."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.client import Client, SubmitOptions
from langlauf.settings import load_settings
from tests.support.live import Live, live, sample_app
from tests.support.traced_app import app

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with both kinds of analyses."""
    with live(tmp_path_factory.mktemp("traced"), app) as running:
        yield running


@pytest.mark.parametrize("analysis", ["here", "there"])
def test_the_analysis_can_carry_it_on(traced: Live, analysis: str, caplog: pytest.LogCaptureFixture) -> None:
    """The handle has it in both kinds; events and every line of the log about the attempt have its id."""
    headers = {"traceparent": PARENT, "tracestate": "rojo=1,congo=2", "X-Request-Id": f"of-{analysis}"}
    with caplog.at_level(logging.DEBUG, "langlauf"):
        done = traced.http.post("/analyze", json={"analysis": analysis}, headers=headers).json()
        # The end is told after it is written: the next job's begins when that was.
        traced.http.post("/analyze", json={"analysis": "here"})
    assert done["result"] == {"trace_id": TRACE, "traceparent": PARENT, "tracestate": "rojo=1,congo=2"}
    job = traced.job(done["job_id"])
    assert {event["trace_id"] for event in job["events"]} == {job["trace_id"]} == {TRACE}
    assert not {"traceparent", "tracestate"} & set(job)
    lines = [_fields(record) for record in caplog.records if _fields(record).get("job_id") == job["job_id"]]
    assert lines
    for fields in lines:
        assert (fields["trace_id"], fields["request_id"]) == (TRACE, f"of-{analysis}")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


@pytest.mark.parametrize("analysis", ["here", "there"])
def test_without_one_a_trace_begins(traced: Live, analysis: str) -> None:
    """It has an id, and nothing to carry on; a header that cannot be read is as none, and its tracestate is dropped."""
    for headers in ({}, {"traceparent": PARENT.upper(), "tracestate": "rojo=1"}, {"tracestate": "rojo=1"}):
        result = traced.http.post("/analyze", json={"analysis": analysis}, headers=headers).json()["result"]
        assert (result["traceparent"], result["tracestate"]) == (None, None)
        assert len(result["trace_id"]) == 32
        assert result["trace_id"] != TRACE


def test_a_retry_belongs_to_its_own_request(traced: Live) -> None:
    """Whoever retries is another caller, with another trace."""
    first = traced.http.post("/analyze", json={"analysis": "here"}, headers={"traceparent": PARENT}).json()["job_id"]
    headers = {"traceparent": f"00-{OTHER}-00f067aa0ba902b7-00", "X-Request-Id": "the-retry"}
    made = traced.http.post(f"/analyze/jobs/{first}/retry", headers=headers).json()["job"]
    assert (made["trace_id"], made["request_id"], made["retry_of"]) == (OTHER, "the-retry", first)
    assert traced.wait(made["job_id"])["result"]["trace_id"] == OTHER
    assert traced.job(first)["trace_id"] == TRACE


def test_the_answer_does_not_repeat_it(traced: Live) -> None:
    """There is no such header of an answer in the standard."""
    response = traced.http.post("/analyze", json={}, headers={"traceparent": PARENT})
    assert not {"traceparent", "tracestate"} & set(response.headers)


def test_the_client_passes_it_on(traced: Live) -> None:
    """By option; one that cannot be read is not sent. Every request of the client has an id."""
    with Client(traced.url) as client:
        job = client.submit("here", options=SubmitOptions(traceparent=PARENT))
        assert job.result(timeout=60)["traceparent"] == PARENT
        assert len(job.status().request_id) == 36
        unreadable = client.submit("here", options=SubmitOptions(traceparent="a\nb"))
        assert unreadable.result(timeout=60)["traceparent"] is None


def test_a_submission_without_http_may_belong_to_a_trace(tmp_path: Path) -> None:
    """As the header of the request that an outer application is answering; one that cannot be read is as none."""
    inner = sample_app(
        settings=load_settings({"ASYNC_JOBS_STORE_FILE": str(tmp_path / "s.db"), "LANGLAUF_WORKERS": "0"})
    )

    async def scene() -> None:
        async with inner.lifespan():
            job = await inner.submit("echo", query="x", traceparent=PARENT)
            assert (job.trace_id, job.traceparent) == (TRACE, PARENT)
            job = await inner.submit("echo", query="x", traceparent="nonsense")
            assert job.traceparent is None

    asyncio.run(scene())
