"""Submitting: a validated request becomes a durable job, or is refused with a reason."""

import difflib
from typing import Any

import msgspec

from langlauf.analysis.code import code_version
from langlauf.analysis.payload import is_small, run_in_thread
from langlauf.analysis.registry import Analysis, Registry
from langlauf.analysis.schema import InvalidInput, canonical_json, read_input
from langlauf.analysis.texts import clean_label
from langlauf.auth.caller import Caller
from langlauf.clock import Clock, new_id
from langlauf.domain.delivery import Subscription
from langlauf.domain.errors import Overloaded, StoreError
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import (
    INLINE_REF,
    Accepted,
    Duplicate,
    JobRecord,
    KeyReused,
    NewJob,
    PriorityClass,
    QueueFull,
    Replayed,
    ReuseRule,
    SubmitOutcome,
    payload_hash,
)
from langlauf.domain.provenance import Trace
from langlauf.domain.state import Status
from langlauf.domain.text import first_flaw
from langlauf.service.notifications import NotifyOptions, NotifyValidator
from langlauf.service.start_times import Estimates
from langlauf.settings import Settings
from langlauf.settings_values import LONGEST_DURATION
from langlauf.store.protocol import Store
from langlauf.telemetry.metrics import SUBMISSIONS
from langlauf.telemetry.tracing import start_span

#: How long a job may wait for its time, in seconds.
LONGEST_DELAY = LONGEST_DURATION
#: Metric labels of the outcomes of a submission.
_OUTCOMES: dict[type, str] = {
    Accepted: "accepted",
    Replayed: "replayed",
    KeyReused: "idempotency_mismatch",
    Duplicate: "duplicate",
    QueueFull: "queue_full",
}


class SubmitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A submission. None leaves the default of the analysis in force."""

    analysis: str | None = None
    input: dict[str, Any]
    #: whether the input is known to contain only storable values
    checked: bool = False
    timeout_seconds: float | None = None
    max_retries: int | None = None
    priority_class: PriorityClass = "default"
    allow_duplicate: bool = False
    idempotency_key: str | None = None
    retry_of: str | None = None
    #: a name for people; None leaves it to the analysis
    label: str | None = None
    resume: bool = False
    #: name and version of the agent that calls the analysis as a tool
    tool_client: str | None = None
    #: when it may start, as a time or a delay, and when it is too late for that
    run_at: Instant | None = None
    delay_seconds: float | None = None
    start_by: Instant | None = None
    #: the job whose input this one started from
    based_on: str | None = None
    #: whether a stored result may take the place of a run, where the analysis allows it
    reuse: bool = True
    #: the schedule that submits it, and for when
    schedule: str | None = None
    planned_at: Instant | None = None
    #: notifications to validate and add
    notify: NotifyOptions | None = None
    #: subscriptions validated before, such as those of a retried job
    subscriptions: tuple[Subscription, ...] = ()


class SubmitService:
    """Turns submissions into jobs."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, estimates: Estimates, clock: Clock
    ) -> None:
        self._store = store
        self._estimates = estimates
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._notices = NotifyValidator(store, settings)
        self._in_progress = 0
        #: the version of each analysis with reuse
        self._versions: dict[str, str] = {}

    def analysis_for(self, name: str | None) -> Analysis:
        """Return the named analysis, or the default one."""
        name = self._registry.default if name is None else name
        analysis = None if name is None else self._registry.get(name)
        if analysis is None:
            near = difflib.get_close_matches(name or "", self._registry.names, n=1)
            known = ", ".join(self._registry.names) or "none"
            hint = f"did you mean {near[0]}?" if near else f"known are {known}."
            raise InvalidInput("analysis", f"There is no analysis {name!r}; {hint}")
        return analysis

    async def submit(self, caller: Caller, request: SubmitRequest) -> SubmitOutcome:
        """Validate the request, and write the job in one transaction.

        Refuses more concurrent submissions than the process can handle soon: an accepted job is never dropped.
        """
        try:
            submitted = await self._bounded(caller, request)
        except InvalidInput:
            SUBMISSIONS.add("invalid")
            raise
        except StoreError as error:
            SUBMISSIONS.add("overloaded" if isinstance(error, Overloaded) else "unavailable")
            raise
        reused = isinstance(submitted, Accepted) and submitted.job.reused_from is not None
        SUBMISSIONS.add("reused" if reused else _OUTCOMES[type(submitted)])
        return submitted

    async def _bounded(self, caller: Caller, request: SubmitRequest) -> SubmitOutcome:
        if self._in_progress >= self._settings.max_submitting:
            raise Overloaded(f"{self._in_progress} submissions are in progress; nothing more is accepted")
        self._in_progress += 1
        try:
            return await self._submit(caller, request)
        finally:
            self._in_progress -= 1

    async def _submit(self, caller: Caller, request: SubmitRequest) -> SubmitOutcome:
        analysis = self.analysis_for(request.analysis)
        with start_span("submit", caller.trace, "producer", analysis=analysis.name, org_id=caller.org_id) as span:
            submitted = await self._write(caller, request, analysis, span.trace)
            span.set_attributes(answer=type(submitted).__name__.lower())
            if isinstance(submitted, Accepted):
                span.set_attributes(job_id=submitted.job.job_id)
            return submitted

    def _reuse_rule(self, analysis: Analysis, request: SubmitRequest) -> ReuseRule | None:
        """Return which results may be reused; none for a retry or a later start, which ask for a run."""
        wants_run = not request.reuse or request.retry_of or request.run_at or request.delay_seconds
        if analysis.reuse is None or wants_run:
            return None
        if analysis.name not in self._versions:
            self._versions[analysis.name] = code_version(analysis).version
        return ReuseRule(self._versions[analysis.name], analysis.reuse)

    async def _write(
        self, caller: Caller, request: SubmitRequest, analysis: Analysis, trace: Trace | None
    ) -> SubmitOutcome:
        large = not is_small(request.input)
        payload, label = await run_in_thread(_read, analysis, request) if large else _read(analysis, request)
        await self._check_origin(caller, request)
        subscriptions = request.subscriptions
        if request.notify is not None:
            subscriptions += await self._notices.subscriptions(caller.org_id, request.notify)
        now = self._clock.now()
        run_at = _run_at(request, now)
        job = JobRecord(
            job_id=new_id(),
            org_id=caller.org_id,
            analysis=analysis.name,
            status=Status.QUEUED,
            priority_class=request.priority_class,
            request_payload_hash=payload_hash(analysis.name, payload),
            request_payload_ref=INLINE_REF,
            queued_at=now,
            updated_at=now,
            timeout_seconds=_timeout(analysis, request.timeout_seconds),
            max_retries=analysis.max_retries if request.max_retries is None else request.max_retries,
            trace_id=trace.trace_id if trace else caller.trace_id,
            request_id=caller.request_id,
            traceparent=trace.traceparent if trace else None,
            tracestate=trace.tracestate if trace else None,
            requested_by_user_id=caller.user_id,
            api_key_id=caller.api_key_id,
            retry_of=request.retry_of,
            label=label,
            tool_client=request.tool_client,
            run_at=run_at,
            start_by=request.start_by,
            based_on=request.based_on,
            schedule=request.schedule,
            planned_at=request.planned_at,
        )
        expected = await self._estimates.expected(job, now)
        new = NewJob(
            job=msgspec.structs.replace(job, estimated_seconds=expected),
            payload=payload,
            idempotency_key=request.idempotency_key,
            refuse_duplicate=not (analysis.duplicates or request.allow_duplicate),
            resume_from=request.retry_of if request.resume else None,
            max_waiting_org=self._settings.max_waiting_org,
            max_waiting_all=self._settings.max_waiting_all,
            max_waiting_analysis=analysis.queue_limit,
            subscriptions=subscriptions,
            reusable=analysis.reuse is not None and not request.resume,
            reuse=self._reuse_rule(analysis, request),
        )
        submitted = await self._store.submit(new)
        if isinstance(submitted, Replayed) and submitted.job.retry_of != request.retry_of:
            return KeyReused()  # the same input, but to retry a job is not to submit it
        if isinstance(submitted, QueueFull):
            seconds = await self._estimates.retry_after(submitted, job.org_id, job.analysis, now)
            return msgspec.structs.replace(submitted, retry_after=seconds)
        return submitted

    async def _check_origin(self, caller: Caller, request: SubmitRequest) -> None:
        """Refuse a job of another org, and one that does not exist, in the same words."""
        if request.based_on is not None and await self._store.tenant(caller.org_id).job(request.based_on) is None:
            raise InvalidInput("options.async_mode.based_on", "there is no such job to start from")


def _read(analysis: Analysis, request: SubmitRequest) -> tuple[str, str | None]:
    """Return the input and the label as they are stored; raise `InvalidInput` where the input is not valid."""
    if not request.checked and (flaw := first_flaw(msgspec.to_builtins(request.input, str_keys=True))):
        raise InvalidInput(flaw.split(":")[0], flaw)
    values = read_input(analysis.input_type, request.input)
    label = analysis.wording.label_of(values) if request.label is None else clean_label(request.label)
    return canonical_json(values), label


def _run_at(request: SubmitRequest, now: Instant) -> Instant | None:
    """Return the time for which the job waits; raise `InvalidInput` where the times contradict each other."""
    if request.run_at is not None and request.delay_seconds is not None:
        raise InvalidInput("options.async_mode.delay_seconds", "give run_at or delay_seconds, not both", "later_both")
    run_at = after(now, request.delay_seconds) if request.delay_seconds is not None else request.run_at
    if run_at is not None and run_at > after(now, LONGEST_DELAY):
        raise InvalidInput("options.async_mode.run_at", "a job can wait for a hundred years at most", "later_far")
    if request.start_by is not None and request.start_by <= max(now, run_at or now):
        message = "start_by must be in the future, and later than the start"
        raise InvalidInput("options.async_mode.start_by", message, "start_by_passed")
    return run_at


def _timeout(analysis: Analysis, wished: float | None) -> float:
    """Return the timeout: a request can only lower the limit."""
    return analysis.timeout if wished is None else min(analysis.timeout, wished)
