"""The same wish for many jobs. Each is carried out for itself: what one of them refuses stops none of the others."""

import asyncio
import hashlib
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import msgspec

from langlauf.auth.caller import Caller
from langlauf.domain.errors import LanglaufError
from langlauf.domain.job import Accepted, Duplicate, Replayed
from langlauf.domain.views import JobView
from langlauf.service.control import Control

#: A person looks over so many; more at once is for a program.
MOST_AT_ONCE = 100


class Done(msgspec.Struct, frozen=True):
    """For how many jobs it was done, and how many were left as they are."""

    done: int
    left: int


async def cancel_many(control: Control, caller: Caller, job_ids: Sequence[str], reason: str | None) -> Done:
    """Stops jobs, or asks their workers to; those that have ended or cannot be canceled are left."""
    asked = await _each(control.cancel(caller, job_id, reason) for job_id in job_ids[:MOST_AT_ONCE])
    done = sum(1 for one in asked if isinstance(one, JobView) and _stops(one))
    return Done(done, len(asked) - done)


async def repeat_many(control: Control, caller: Caller, job_ids: Sequence[str], wish: str) -> Done:
    """Makes new jobs of those that have ended, with their finished chunks. The same wish again makes no second ones."""
    made = await _each(
        control.retry(caller, job_id, resume=True, idempotency_key=_key(wish, job_id))
        for job_id in job_ids[:MOST_AT_ONCE]
    )
    done = sum(1 for one in made if isinstance(one, Accepted | Replayed | Duplicate))
    return Done(done, len(made) - done)


async def _each(wishes: Iterable[Awaitable[Any]]) -> list[Any]:
    """What came of each. An input that its analysis does not take any more, or a store that is busy, is one of them."""
    came = await asyncio.gather(*wishes, return_exceptions=True)
    for one in came:
        if isinstance(one, BaseException) and not isinstance(one, LanglaufError):
            raise one
    return list(came)


def _stops(view: JobView) -> bool:
    return view.job.cancel_requested_at is not None or view.job.canceled_by == "user"


def _key(wish: str, job_id: str) -> str:
    return "again-" + hashlib.sha256(f"{wish}\0{job_id}".encode()).hexdigest()[:32]
