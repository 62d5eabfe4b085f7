"""Submissions as the database takes them, and the outcomes that it returns."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from langlauf.clock import made_at, new_id
from langlauf.domain.attempt import Claim, ClaimRequest, Lease
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import (
    INLINE_REF,
    Accepted,
    Duplicate,
    JobRecord,
    KeyReused,
    NewJob,
    QueueFull,
    Replayed,
    SubmitOutcome,
)
from langlauf.domain.state import Status
from langlauf.store.postgres.batch import is_hex, is_uuid, key_of, name_unless_uuid

#: Looks jobs up by org and id.
FindJobs = Callable[[Sequence[tuple[str, str]]], Awaitable[dict[tuple[str, str], JobRecord]]]
_EXISTING = ("replayed", "duplicate")
#: Fields that most jobs do not have, by the name that they have on both sides.
_RARE = (
    "requested_by_user_id",
    "api_key_id",
    "tool_client",
    "retry_of",
    "based_on",
    "traceparent",
    "tracestate",
    "label",
    "run_at",
    "start_by",
    "schedule",
    "planned_at",
)


def keys_of_batch(batch: Sequence[NewJob]) -> Callable[[NewJob], list[tuple[str, ...]]]:
    """Return the function that gives a submission's keys, of which no two submissions of one statement share any.

    The input is a key if one of the batch refuses duplicates of it.
    """
    refused = {_input_key(new) for new in batch if new.refuse_duplicate}

    def keys_of(new: NewJob) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = [("job", new.job.org_id, new.job.job_id)]
        if new.idempotency_key is not None:
            found.append(("key", new.job.org_id, new.idempotency_key))
        if (input_key := _input_key(new)) in refused:
            found.append(input_key)
        return found

    return keys_of


def _input_key(new: NewJob) -> tuple[str, ...]:
    return ("input", new.job.org_id, new.job.analysis, new.job.request_payload_hash)


def size_of(new: NewJob) -> int:
    """Return the approximate size in bytes."""
    return len(new.payload) + 500


def parameters_of(batch: Sequence[NewJob]) -> list[list[dict[str, Any]]]:
    """Return the submissions and their subscriptions as records of `new_job` and `new_subscription`."""
    subscriptions = [
        {"place": place, "channel": one.channel, "target": one.target, "lane": one.lane, "language": one.language}
        for place, new in enumerate(batch, start=1)
        for one in new.subscriptions
    ]
    return [[_record_of(new) for new in batch], subscriptions]


def _record_of(new: NewJob) -> dict[str, Any]:
    """Return a submission by field; what most jobs lack is only named where it is there."""
    job = new.job
    record = {
        "org_id": job.org_id,
        "job": key_of(job.job_id),
        "job_name": name_unless_uuid(job.job_id),
        "analysis": job.analysis,
        "priority_class": job.priority_class,
        "payload_hash": bytes.fromhex(job.request_payload_hash),
        "payload_ref": None if job.request_payload_ref == INLINE_REF else job.request_payload_ref,
        "input": new.payload,
        "timeout_seconds": job.timeout_seconds,
        "max_retries": job.max_retries,
        "trace" if is_hex(job.trace_id) else "trace_name": job.trace_id,
        "request" if is_uuid(job.request_id) else "request_name": job.request_id,
        "estimated_seconds": job.estimated_seconds,
        "refuse_duplicate": new.refuse_duplicate,
        "most_of_org": new.max_waiting_org,
        "most_of_all": new.max_waiting_all,
        "most_of_analysis": new.max_waiting_analysis,
        **{name: value for name in _RARE if (value := getattr(job, name)) is not None},
    }
    if new.idempotency_key is not None:
        record["idempotency_key"] = new.idempotency_key
    if new.resume_from is not None:
        record["resume_from"] = new.resume_from
    if new.reusable:
        record["reusable"] = 1
    if new.reuse is not None:
        record |= {
            "reuse_version": new.reuse.version,
            "reuse_age": after(0, new.reuse.seconds),
            "reuse_result": key_of(new_id()),
        }
    return record


def started(batch: Sequence[NewJob], texts: Sequence[str], request: ClaimRequest) -> list[Claim]:
    """Return the claims of the jobs that started with their submission: all that they say is known here."""
    began = [
        (new, int(text.split(" ")[1])) for new, text in zip(batch, texts, strict=True) if text.startswith("started ")
    ]
    return [
        Claim(
            lease=Lease(new.job.org_id, new.job.job_id, 1),
            analysis=new.job.analysis,
            payload=new.payload,
            started_at=at,
            expires_at=after(at, request.lease_seconds),
            timeout_seconds=new.job.timeout_seconds,
            progress_percent=0,
            retry_count=0,
            max_retries=new.job.max_retries,
            trace_id=new.job.trace_id,
            request_id=new.job.request_id,
            traceparent=new.job.traceparent,
            tracestate=new.job.tracestate,
            queued_at=made_at(new.job.job_id),
            planned_at=new.job.planned_at,
        )
        for new, at in began
    ]


async def read_outcomes(
    batch: Sequence[NewJob], texts: Sequence[str], find: FindJobs
) -> list[SubmitOutcome | StoreError]:
    """Return the outcome of each submission; jobs that existed before are looked up.

    If the lookup fails, only the submissions that need it get the error: the others are committed.
    """
    outcomes = [text.split(" ") for text in texts]
    existing = [(new.job.org_id, one[1]) for new, one in zip(batch, outcomes, strict=True) if one[0] in _EXISTING]
    known: dict[tuple[str, str], JobRecord] = {}
    unavailable: StoreUnavailable | None = None
    try:
        known = await find(existing) if existing else {}
    except StoreUnavailable as error:
        unavailable = error
    return [
        unavailable if unavailable and one[0] in _EXISTING else _outcome(new, one, known)
        for new, one in zip(batch, outcomes, strict=True)
    ]


def _reused(new: NewJob, now: Instant, result_id: str, origin_id: str) -> Accepted:
    job = replace(
        new.job, status=Status.COMPLETED, queued_at=now, updated_at=now, attempt=1, event_seq=3, progress_percent=100,
        estimated_seconds=0.0, started_at=now, attempt_started_at=now, finished_at=now, result_id=result_id,
        reused_from=origin_id,
    )  # fmt: skip
    return Accepted(job)


def _outcome(  # noqa: PLR0911 - one line for each word
    new: NewJob, outcome: list[str], known: dict[tuple[str, str], JobRecord]
) -> SubmitOutcome | StoreError:
    match outcome:
        case ["accepted" | "started" | "known", at, ticket]:
            now: Instant = int(at)
            return Accepted(replace(new.job, queued_at=now, updated_at=now, ticket=int(ticket)))
        case ["found", at, result_id, origin_id]:
            return _reused(new, int(at), result_id, origin_id)
        case ["reused"]:
            return KeyReused()
        case ["full", "org" | "analysis" | "all" as scope, waiting]:
            return QueueFull(scope, int(waiting))
        case ["replayed" | "duplicate" as word, job_id]:
            job = known.get((new.job.org_id, job_id))
            if job is None:
                return StoreError(f"the job {job_id} existed a moment ago; submit again")
            return Replayed(job) if word == "replayed" else Duplicate(job)
    return StoreError(f"the database answered {' '.join(outcome)!r}")
