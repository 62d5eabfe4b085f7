"""The probe: two jobs over HTTP, from the submission to the result and to a cancel, with the time that each step takes.

They are jobs of an analysis that every application has, in an org that is nobody's. Neither is left running; their
records go with retention.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import httpx2

from langlauf.analysis.probe import PROBE_NAME, PROBE_ORG
from langlauf.client import Client, ClientError, Forbidden, RemoteJob, SubmitOptions
from langlauf.clock import monotonic, new_id
from langlauf.doctor.findings import Finding, Level
from langlauf.domain.event import EventType
from langlauf.domain.state import TERMINAL, Status

#: What each step may take.
STEP_SECONDS = 15.0
_LONG_JOB_SECONDS = 25.0
_ENDS = {EventType.COMPLETED, EventType.FAILED, EventType.CANCELED}


class Step(NamedTuple):
    """One step of the probe. `looks_at` is its line in the documents."""

    name: str
    looks_at: str


SUBMIT = Step("probe_submit", "A job is accepted.")
START = Step("probe_start", "A worker starts it.")
STREAM = Step("probe_stream", "Its events come over a stream, to the last one.")
RESULT = Step("probe_result", "Its result can be read.")
CANCEL = Step("probe_cancel", "A second job is canceled while it runs.")
STEPS = (SUBMIT, START, STREAM, RESULT, CANCEL)


class ProbeFailed(Exception):
    """A step that did not do what it should."""

    def __init__(self, step: Step, words: str, next_step: str) -> None:
        super().__init__(words)
        self.finding = Finding(step.name, Level.ERROR, words, next_step)


class Probe:
    """One probe of one server."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._org: str | None = PROBE_ORG

    def findings(self) -> Iterator[Finding]:
        """A finding for each step; the first that fails ends it."""
        try:
            with self._client() as client:
                yield from self._run(client)
        except ProbeFailed as failed:
            yield failed.finding

    def _client(self) -> Client:
        """For the org of probes; a key of another org probes in that one."""
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
        with _stopping(_submitted(client, seconds=0.0)) as job:
            yield _took(SUBMIT, began)
            times = self._followed(job)
            yield Finding(START.name, Level.OK, _shown(times.started), None)
            yield Finding(STREAM.name, Level.OK, f"{times.events} events in {_shown(times.ended)}", None)
            began = monotonic()
            value = _value_of(job)
            if not isinstance(value, dict) or "attempt" not in value:
                raise ProbeFailed(RESULT, f"the result is {value!r}", f"langlauf status {job.job_id} --org {PROBE_ORG}")
            yield _took(RESULT, began)
        yield _canceled(client)

    def _followed(self, job: RemoteJob) -> "Times":
        """Follows the log as a browser would, and tells when the job started and ended."""
        began, started, events = monotonic(), None, 0
        step = f"curl -sN -H 'Accept: text/event-stream' {self._url}{self._log_of(job)}"
        try:
            for kind in self._events(job, began + STEP_SECONDS):
                events += 1
                if kind == EventType.RUNNING:
                    started = monotonic() - began
                if kind in _ENDS:
                    return Times(started or 0.0, monotonic() - began, events)
        except httpx2.HTTPError as error:
            if started is not None:
                words = f"the stream broke off: {str(error) or type(error).__name__}"
                raise ProbeFailed(STREAM, words, step) from error
        if started is None:
            raise ProbeFailed(START, f"no worker started the job within {STEP_SECONDS:g} s", "langlauf serve")
        raise ProbeFailed(STREAM, "the stream did not tell of the end", step)

    def _events(self, job: RemoteJob, until: float) -> Iterator[str]:
        """The kinds of the events, as they come."""
        headers = {"Accept": "text/event-stream"}
        if self._org is not None:
            headers["X-Org-Id"] = self._org
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        address = self._url.rstrip("/") + self._log_of(job)
        with httpx2.stream("GET", address, headers=headers, timeout=STEP_SECONDS) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith("event:"):
                    yield line.partition(":")[2].strip()
                if monotonic() > until:
                    return

    def _log_of(self, job: RemoteJob) -> str:
        return f"/analyze/jobs/{job.job_id}/events"


def _canceled(client: Client) -> Finding:
    with _stopping(_submitted(client, seconds=_LONG_JOB_SECONDS)) as job:
        step = f"langlauf status {job.job_id} --org {PROBE_ORG}"
        try:
            next(state for state in job.states(timeout=STEP_SECONDS) if state.status != Status.QUEUED)
            began = monotonic()
            job.cancel("a probe")
            last = job.wait(timeout=STEP_SECONDS)
        except ClientError as error:
            raise ProbeFailed(CANCEL, str(error), step) from error
        if last.status != Status.CANCELED:
            raise ProbeFailed(CANCEL, f"the canceled job is {last.status}", step)
        return _took(CANCEL, began)


class Times(NamedTuple):
    """When a job started and ended, in seconds after it was followed, and how many events there were."""

    started: float
    ended: float
    events: int


@contextmanager
def _stopping(job: RemoteJob) -> Iterator[RemoteJob]:
    """Whatever happens, the job does not go on."""
    try:
        yield job
    finally:
        with suppress(ClientError):
            if job.status().status not in TERMINAL:
                job.cancel("the probe is over")


def _submitted(client: Client, *, seconds: float) -> RemoteJob:
    try:
        options = SubmitOptions(allow_duplicate=True, idempotency_key=f"probe-{new_id()}", max_retries=0)
        return client.submit(PROBE_NAME, seconds=seconds, options=options)
    except ClientError as error:
        raise ProbeFailed(SUBMIT, str(error), "langlauf serve") from error


def _value_of(job: RemoteJob) -> object:
    try:
        return job.result(timeout=STEP_SECONDS)
    except ClientError as error:
        raise ProbeFailed(RESULT, str(error), f"langlauf result {job.job_id} --org {PROBE_ORG}") from error


def _took(step: Step, began: float) -> Finding:
    return Finding(step.name, Level.OK, _shown(monotonic() - began), None)


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
