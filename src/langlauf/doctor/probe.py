"""`langlauf doctor --probe`: two jobs over HTTP, from submission to result and to cancel, with the time of each step.

They are jobs of an analysis that every application has, in an org of its own. Neither is left running; retention
removes their records.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import httpx2

from langlauf.analysis.job import PROBE_NAME, PROBE_ORG
from langlauf.client import Client, ClientError, Forbidden, RemoteJob, SubmitOptions
from langlauf.clock import monotonic, new_id
from langlauf.doctor.check import CheckLevel, Finding
from langlauf.domain.event import EventType
from langlauf.domain.state import TERMINAL, Status

#: Time limit of each step.
STEP_SECONDS = 15.0
_LONG_JOB_SECONDS = 25.0
_ENDS = {EventType.COMPLETED, EventType.FAILED, EventType.CANCELED}


class ProbeStep(NamedTuple):
    """One step of the probe. `expectation` is its line in the documents."""

    name: str
    expectation: str


SUBMIT = ProbeStep("probe_submit", "A job is accepted.")
START = ProbeStep("probe_start", "A worker starts it.")
STREAM = ProbeStep("probe_stream", "Its events arrive over a stream, to the last one.")
RESULT = ProbeStep("probe_result", "Its result can be read.")
CANCEL = ProbeStep("probe_cancel", "A second job is canceled while it runs.")
STEPS = (SUBMIT, START, STREAM, RESULT, CANCEL)


class ProbeFailed(Exception):
    """A step that failed."""

    def __init__(self, step: ProbeStep, message: str, next_step: str) -> None:
        super().__init__(message)
        self.finding = Finding(step.name, CheckLevel.ERROR, message, next_step)


class Probe:
    """A probe of one server."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._org: str | None = PROBE_ORG

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each step, up to the first that fails."""
        try:
            with self._client() as client:
                yield from self._run(client)
        except ProbeFailed as failed:
            yield failed.finding

    def _client(self) -> Client:
        """Return a client for the probe's org, or for the org of the key."""
        client = Client(self._url, self._org, self._key, timeout=STEP_SECONDS)
        try:
            next(client.jobs(limit=1), None)
        except Forbidden:
            client.close()
            self._org = None
            return Client(self._url, None, self._key, timeout=STEP_SECONDS)
        except ClientError as error:
            client.close()
            raise ProbeFailed(SUBMIT, str(error), "langlauf serve") from error
        return client

    def _run(self, client: Client) -> Iterator[Finding]:
        began = monotonic()
        with _cancel_at_exit(_submit(client, seconds=0.0)) as job:
            yield _timed(SUBMIT, began)
            times = self._follow(job)
            yield Finding(START.name, CheckLevel.OK, _milliseconds(times.started), None)
            yield Finding(STREAM.name, CheckLevel.OK, f"{times.events} events in {_milliseconds(times.ended)}", None)
            began = monotonic()
            value = _result(job)
            if not isinstance(value, dict) or "attempt" not in value:
                raise ProbeFailed(RESULT, f"the result is {value!r}", f"langlauf status {job.job_id} --org {PROBE_ORG}")
            yield _timed(RESULT, began)
        yield _check_cancel(client)

    def _follow(self, job: RemoteJob) -> "ProbeTimes":
        """Follow the event stream as a browser would; return when the job started and ended."""
        began, started, events = monotonic(), None, 0
        next_step = f"curl -sN -H 'Accept: text/event-stream' {self._url}{self._events_path(job)}"
        try:
            for kind in self._events(job, began + STEP_SECONDS):
                events += 1
                if kind == EventType.RUNNING:
                    started = monotonic() - began
                if kind in _ENDS:
                    return ProbeTimes(started or 0.0, monotonic() - began, events)
        except httpx2.HTTPError as error:
            if started is not None:
                message = f"the stream broke off: {str(error) or type(error).__name__}"
                raise ProbeFailed(STREAM, message, next_step) from error
        if started is None:
            raise ProbeFailed(START, f"no worker started the job within {STEP_SECONDS:g} s", "langlauf serve")
        raise ProbeFailed(STREAM, "the stream ended before the job's last event", next_step)

    def _events(self, job: RemoteJob, until: float) -> Iterator[str]:
        """Yield the types of the events as they arrive."""
        headers = {"Accept": "text/event-stream"}
        if self._org is not None:
            headers["X-Org-Id"] = self._org
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        address = self._url.rstrip("/") + self._events_path(job)
        with httpx2.stream("GET", address, headers=headers, timeout=STEP_SECONDS) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith("event:"):
                    yield line.partition(":")[2].strip()
                if monotonic() > until:
                    return

    def _events_path(self, job: RemoteJob) -> str:
        return f"/analyze/jobs/{job.job_id}/events"


def _check_cancel(client: Client) -> Finding:
    with _cancel_at_exit(_submit(client, seconds=_LONG_JOB_SECONDS)) as job:
        next_step = f"langlauf status {job.job_id} --org {PROBE_ORG}"
        try:
            next(state for state in job.states(timeout=STEP_SECONDS) if state.status != Status.QUEUED)
            began = monotonic()
            job.cancel("a probe")
            last = job.wait(timeout=STEP_SECONDS)
        except ClientError as error:
            raise ProbeFailed(CANCEL, str(error), next_step) from error
        if last.status != Status.CANCELED:
            raise ProbeFailed(CANCEL, f"the canceled job is {last.status}", next_step)
        return _timed(CANCEL, began)


class ProbeTimes(NamedTuple):
    """When a job started and ended, in seconds since the stream was opened, and the number of events."""

    started: float
    ended: float
    events: int


@contextmanager
def _cancel_at_exit(job: RemoteJob) -> Iterator[RemoteJob]:
    """Cancel the job at the end of the block, if it still runs."""
    try:
        yield job
    finally:
        with suppress(ClientError):
            if job.status().status not in TERMINAL:
                job.cancel("the probe is over")


def _submit(client: Client, *, seconds: float) -> RemoteJob:
    try:
        options = SubmitOptions(allow_duplicate=True, idempotency_key=f"probe-{new_id()}", max_retries=0)
        return client.submit(PROBE_NAME, seconds=seconds, options=options)
    except ClientError as error:
        raise ProbeFailed(SUBMIT, str(error), "langlauf serve") from error


def _result(job: RemoteJob) -> object:
    try:
        return job.result(timeout=STEP_SECONDS)
    except ClientError as error:
        raise ProbeFailed(RESULT, str(error), f"langlauf result {job.job_id} --org {PROBE_ORG}") from error


def _timed(step: ProbeStep, began: float) -> Finding:
    return Finding(step.name, CheckLevel.OK, _milliseconds(monotonic() - began), None)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
