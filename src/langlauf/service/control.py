"""Commands on existing jobs: cancel, retry, for one or many, and hold or release their results."""

import asyncio
import hashlib
from collections.abc import Awaitable, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.auth.caller import Caller
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant
from langlauf.domain.job import Accepted, CanceledBy, Duplicate, Replayed, SubmitOutcome
from langlauf.domain.outcome import CANCEL_MARGIN
from langlauf.domain.read_models import CancelRequest, JobView
from langlauf.domain.redact import clean_message
from langlauf.domain.result import HoldRequest, ResultGone
from langlauf.hints import Hints
from langlauf.service.notifications import NotifyValidator
from langlauf.service.read import reads_for
from langlauf.service.submit import SubmitRequest, SubmitService
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.metrics import count_end

DEFAULT_REASON = "canceled on request"
#: The store's clock and the clock of the wake-up differ slightly: the sweep must not run a moment too early.
_TICK = 0.05


class NotCancelable(msgspec.Struct, frozen=True):
    """The analysis was registered as not cancelable."""

    view: JobView


class HasEnded(msgspec.Struct, frozen=True):
    """The job has ended: its messages are written."""

    view: JobView


class NotTerminal(msgspec.Struct, frozen=True):
    """Only a job that has ended can be retried."""

    view: JobView


class Control:
    """Cancels and retries jobs, and changes who is notified of their end."""

    def __init__(
        self, store: Store, registry: Registry, submissions: SubmitService, hints: Hints, settings: Settings
    ) -> None:
        self._store = store
        self._registry = registry
        self._submissions = submissions
        self._hints = hints
        self._notices = NotifyValidator(store, settings)
        self._patience = settings.cancel_grace + CANCEL_MARGIN + _TICK

    async def cancel(
        self, caller: Caller, job_id: str, reason: str | None, by: CanceledBy = "user"
    ) -> JobView | NotCancelable | None:
        """Cancel a job, or request it from its worker without waiting for that. Repeating it changes nothing."""
        view = await reads_for(self._store, caller).job(job_id)
        if view is None or view.job.terminal:
            return view
        analysis = self._registry.get(view.job.analysis)
        if by == "user" and analysis is not None and not analysis.cancelable:
            return NotCancelable(view)
        request = CancelRequest(
            org_id=caller.org_id,
            job_id=job_id,
            by=by,
            reason=clean_message(reason or DEFAULT_REASON),
            request_id=caller.request_id,
        )
        asked = await self._store.cancel(request)
        if asked is not None and not asked.job.terminal and view.job.cancel_requested_at is None:
            self._hints.overdue_after(self._patience)
        if asked is not None and asked.job.terminal and _was_at_rest(view, asked):
            count_end(asked.job.analysis, asked.job.status, None)
        return asked

    async def retry(
        self, caller: Caller, job_id: str, *, resume: bool, idempotency_key: str | None
    ) -> SubmitOutcome | NotTerminal | None:
        """Submit an ended job again as a new job; with `resume` it starts with the finished chunks.

        The new job keeps the subscriptions of the old one.
        """
        tenant = self._store.tenant(caller.org_id)
        view = await tenant.job(job_id)
        payload = await tenant.payload(job_id)
        if view is None or payload is None:
            return None
        job = view.job
        if not job.terminal:
            return NotTerminal(view)
        request = SubmitRequest(
            analysis=job.analysis,
            input=msgspec.json.decode(payload),
            timeout_seconds=job.timeout_seconds,
            max_retries=job.max_retries,
            priority_class=job.priority_class,
            idempotency_key=idempotency_key,
            retry_of=job.job_id,
            label=job.label,
            resume=resume,
            subscriptions=await tenant.subscriptions(job_id),
        )
        return await self._submissions.submit(caller, request)

    async def notify(self, caller: Caller, job_id: str, email: str, language: str | None) -> JobView | HasEnded | None:
        """Send a mail when the job ends, in place of an earlier address. Repeating it changes nothing."""
        tenant = reads_for(self._store, caller)
        if await tenant.job(job_id) is None:
            return None
        wanted = await self._notices.mail_subscription(caller.org_id, email, language, "email")
        subscribed = await self._store.deliveries.subscribe(caller.org_id, job_id, wanted)
        view = await tenant.job(job_id)
        if view is None or subscribed is None:
            return None
        return view if subscribed else HasEnded(view)


def _was_at_rest(before: JobView, after: JobView) -> bool:
    """Whether no worker held the job when it was canceled: the end of a running job is counted where it is written."""
    held_until, ended_at = before.lease_expires_at, after.job.finished_at or 0
    return before.job.attempt == after.job.attempt and (held_until is None or held_until <= ended_at)


#: As many as one form can name; programs use the API.
MOST_AT_ONCE = 1_000
#: Changed side by side, so that other requests are not held up.
_SIDE_BY_SIDE = 50


class BulkResult(msgspec.Struct, frozen=True):
    """The number of jobs changed, and of jobs left as they were."""

    done: int
    left: int


async def cancel_many(control: Control, caller: Caller, job_ids: Sequence[str], reason: str | None) -> BulkResult:
    """Cancel jobs; those that have ended or cannot be canceled are left."""
    asked = await _each(control.cancel(caller, job_id, reason) for job_id in job_ids[:MOST_AT_ONCE])
    done = sum(1 for one in asked if isinstance(one, JobView) and _stops(one))
    return BulkResult(done, len(asked) - done)


async def repeat_many(control: Control, caller: Caller, job_ids: Sequence[str], form_key: str) -> BulkResult:
    """Retry jobs that have ended, with their finished chunks. Repeating it with the same key creates no second ones."""
    made = await _each(
        control.retry(caller, job_id, resume=True, idempotency_key=_key(form_key, job_id))
        for job_id in job_ids[:MOST_AT_ONCE]
    )
    done = sum(1 for one in made if isinstance(one, Accepted | Replayed | Duplicate))
    return BulkResult(done, len(made) - done)


async def _each(wishes: Iterable[Awaitable[Any]]) -> list[Any]:
    """Return each result. A job whose input is no longer valid, or a busy store, does not stop the others."""
    came: list[Any] = []
    left = iter(wishes)
    while some := list(islice(left, _SIDE_BY_SIDE)):
        came += await asyncio.gather(*some, return_exceptions=True)
    for one in came:
        if isinstance(one, BaseException) and not isinstance(one, LanglaufError):
            raise one
    return list(came)


def _stops(view: JobView) -> bool:
    return view.job.cancel_requested_at is not None or view.job.canceled_by == "user"


def _key(form_key: str, job_id: str) -> str:
    return "again-" + hashlib.sha256(f"{form_key}\0{job_id}".encode()).hexdigest()[:32]


OPERATOR = "operator"


class Holds:
    """Holds results against retention, and releases them. Repeating either changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def hold(self, caller: Caller, result_id: str, reason: str | None) -> JobView | ResultGone | None:
        """Exempt the job from retention, except its events; None where the org has no such result."""
        why = None if reason is None else clean_message(reason)
        request = HoldRequest(org_id=caller.org_id, result_id=result_id, by=_who(caller), reason=why)
        return await self._store.hold(request)

    async def release(self, caller: Caller, result_id: str) -> JobView | None:
        """Subject the job to retention again, counted from its end."""
        done = await self._store.hold(HoldRequest(org_id=caller.org_id, result_id=result_id, held=False))
        return None if isinstance(done, ResultGone) else done

    async def held(self, caller: Caller, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:
        """Return the jobs whose results the org holds, the last held first."""
        return await self._store.tenant(caller.org_id).held(before=before, limit=limit)


def _who(caller: Caller) -> str | None:
    """Return who held it: the user of the request, else the key, else the operator."""
    if caller.user_id or caller.api_key_id:
        return caller.user_id or caller.api_key_id
    return OPERATOR if caller.grant is None or caller.grant.guessable else None
