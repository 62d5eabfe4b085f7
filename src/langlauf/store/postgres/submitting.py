"""Submissions as columns, and the answers of the database as outcomes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.domain.job import (
    INLINE,
    Accepted,
    Duplicate,
    JobRecord,
    KeyReused,
    NewJob,
    QueueFull,
    Replayed,
    Submitted,
)
from langlauf.store.postgres.batching import packed
from langlauf.store.postgres.texts import is_hex, is_uuid, key_of, odd_name

#: Finds jobs by org and id.
FindJobs = Callable[[Sequence[tuple[str, str]]], Awaitable[dict[tuple[str, str], JobRecord]]]
_THERE_BEFORE = ("replayed", "duplicate")


def keys_in(batch: Sequence[NewJob]) -> Callable[[NewJob], list[tuple[str, ...]]]:
    """What no two submissions of one statement may have in common; an input, where one of them refuses duplicates."""
    refused = {_input_of(new) for new in batch if new.refuse_duplicate}

    def keys_of(new: NewJob) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = [("job", new.job.org_id, new.job.job_id)]
        if new.idempotency_key is not None:
            found.append(("key", new.job.org_id, new.idempotency_key))
        if (wish := _input_of(new)) in refused:
            found.append(wish)
        return found

    return keys_of


def _input_of(new: NewJob) -> tuple[str, ...]:
    return ("input", new.job.org_id, new.job.analysis, new.job.request_payload_hash)


def size_of(new: NewJob) -> int:
    """About how many bytes it carries."""
    return len(new.payload) + 500


def columns_of(batch: Sequence[NewJob]) -> list[Sequence[Any]]:
    """The submissions, column by column."""
    jobs = [new.job for new in batch]
    columns: list[list[Any]] = [
        [job.org_id for job in jobs],
        [key_of(job.job_id) for job in jobs],
        [odd_name(job.job_id) for job in jobs],
        [job.analysis for job in jobs],
        [job.priority_class for job in jobs],
        [bytes.fromhex(job.request_payload_hash) for job in jobs],
        [None if job.request_payload_ref == INLINE else job.request_payload_ref for job in jobs],
        [new.payload for new in batch],
        [job.timeout_seconds for job in jobs],
        [job.max_retries for job in jobs],
        *_halves([job.trace_id for job in jobs], is_hex),
        *_halves([job.request_id for job in jobs], is_uuid),
        [job.requested_by_user_id for job in jobs],
        [job.api_key_id for job in jobs],
        [job.estimated_seconds for job in jobs],
        [job.retry_of for job in jobs],
        [job.traceparent for job in jobs],
        [job.tracestate for job in jobs],
        [new.idempotency_key for new in batch],
        [new.refuse_duplicate for new in batch],
        [new.resume_from for new in batch],
        [new.max_waiting_org for new in batch],
        [new.max_waiting_all for new in batch],
        [new.max_waiting_analysis for new in batch],
    ]
    return [*(packed(column) for column in columns), *_wishes_of(batch)]


def _halves(texts: list[str], short: Callable[[str], object]) -> tuple[list[Any], list[Any]]:
    """Texts that a database keeps as 16 bytes, and the others."""
    return [text if short(text) else None for text in texts], [None if short(text) else text for text in texts]


def _wishes_of(batch: Sequence[NewJob]) -> list[Sequence[Any]]:
    """What the submissions wish to be told, column by column, behind the place of the submission, from 1 on."""
    placed = [(place, wish) for place, new in enumerate(batch, start=1) for wish in new.subscriptions]
    return [
        [place for place, _ in placed],
        [wish.channel for _, wish in placed],
        [wish.target for _, wish in placed],
        [wish.lane for _, wish in placed],
        [wish.language for _, wish in placed],
    ]


async def submitted(batch: Sequence[NewJob], answers: Sequence[str], find: FindJobs) -> list[Submitted | StoreError]:
    """What became of each; jobs that were there before are looked up.

    Where that fails, those who need it are told so. The others are committed, and hear it.
    """
    words = [answer.split(" ") for answer in answers]
    there = [(new.job.org_id, said[1]) for new, said in zip(batch, words, strict=True) if said[0] in _THERE_BEFORE]
    known: dict[tuple[str, str], JobRecord] = {}
    away: StoreUnavailable | None = None
    try:
        known = await find(there) if there else {}
    except StoreUnavailable as error:
        away = error
    return [
        away if away and said[0] in _THERE_BEFORE else _outcome(new, said, known)
        for new, said in zip(batch, words, strict=True)
    ]


def _outcome(new: NewJob, said: list[str], known: dict[tuple[str, str], JobRecord]) -> Submitted | StoreError:
    match said:
        case ["accepted" | "known", at, ticket]:
            now: Instant = int(at)
            return Accepted(replace(new.job, queued_at=now, updated_at=now, ticket=int(ticket)))
        case ["reused"]:
            return KeyReused()
        case ["full", "org" | "analysis" | "all" as scope, waiting]:
            return QueueFull(scope, int(waiting))
        case ["replayed" | "duplicate" as word, job_id]:
            job = known.get((new.job.org_id, job_id))
            if job is None:
                return StoreError(f"the job {job_id} was there a moment ago")
            return Replayed(job) if word == "replayed" else Duplicate(job)
    return StoreError(f"the database answered {' '.join(said)!r}")
