"""Submissions as columns of a statement, and the outcomes that the database returns."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from langlauf.clock import new_id
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
from langlauf.store.postgres.batch import is_hex, is_uuid, key_of, name_unless_uuid, packed

#: Looks jobs up by org and id.
FindJobs = Callable[[Sequence[tuple[str, str]]], Awaitable[dict[tuple[str, str], JobRecord]]]
_EXISTING = ("replayed", "duplicate")


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


def columns_of(batch: Sequence[NewJob]) -> list[Sequence[Any]]:
    """Return the submissions column by column."""
    jobs = [new.job for new in batch]
    columns: list[list[Any]] = [
        [job.org_id for job in jobs],
        [key_of(job.job_id) for job in jobs],
        [name_unless_uuid(job.job_id) for job in jobs],
        [job.analysis for job in jobs],
        [job.priority_class for job in jobs],
        [bytes.fromhex(job.request_payload_hash) for job in jobs],
        [None if job.request_payload_ref == INLINE_REF else job.request_payload_ref for job in jobs],
        [new.payload for new in batch],
        [job.timeout_seconds for job in jobs],
        [job.max_retries for job in jobs],
        *_split([job.trace_id for job in jobs], is_hex),
        *_split([job.request_id for job in jobs], is_uuid),
        [job.requested_by_user_id for job in jobs],
        [job.api_key_id for job in jobs],
        [job.tool_client for job in jobs],
        [job.estimated_seconds for job in jobs],
        [job.retry_of for job in jobs],
        [job.based_on for job in jobs],
        [job.traceparent for job in jobs],
        [job.tracestate for job in jobs],
        [job.label for job in jobs],
        [job.run_at for job in jobs],
        [job.start_by for job in jobs],
        [job.schedule for job in jobs],
        [job.planned_at for job in jobs],
        [new.idempotency_key for new in batch],
        [new.refuse_duplicate for new in batch],
        [new.resume_from for new in batch],
        [new.max_waiting_org for new in batch],
        [new.max_waiting_all for new in batch],
        [new.max_waiting_analysis for new in batch],
    ]
    return [*(packed(column) for column in columns), *_wish_columns(batch), *_reuse_columns(batch)]


def _split(texts: list[str], compact: Callable[[str], object]) -> tuple[list[Any], list[Any]]:
    """Return the column of texts that are stored as 16 bytes, and the column of the others."""
    return [text if compact(text) else None for text in texts], [None if compact(text) else text for text in texts]


def _wish_columns(batch: Sequence[NewJob]) -> list[Sequence[Any]]:
    """Return the subscriptions column by column, the first column being the place of the submission from 1 on."""
    placed = [(place, request) for place, new in enumerate(batch, start=1) for request in new.subscriptions]
    return [
        [place for place, _ in placed],
        [request.channel for _, request in placed],
        [request.target for _, request in placed],
        [request.lane for _, request in placed],
        [request.language for _, request in placed],
    ]


def _reuse_columns(batch: Sequence[NewJob]) -> list[Sequence[Any]]:
    """Return where results may be reused, column by column, with new ids for them; and whose own may be."""
    asked = [(place, new.reuse) for place, new in enumerate(batch, start=1) if new.reuse is not None]
    return [
        [place for place, _ in asked],
        [rule.version for _, rule in asked],
        [after(0, rule.seconds) for _, rule in asked],
        [key_of(new_id()) for _ in asked],
        [place for place, new in enumerate(batch, start=1) if new.reusable],
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
        case ["accepted" | "known", at, ticket]:
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
