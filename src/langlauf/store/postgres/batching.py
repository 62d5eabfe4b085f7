"""Batches of writes that are carried out once, also where their answer was lost.

A batch whose answer did not come is sent again, and says so. What it wrote shows whether it was committed; answers that
do not show are kept for a while. Where it is still under way, the database waits for its end: its rows are locked.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeVar

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.group_commit import rounds

Operation = TypeVar("Operation")
#: Sends a batch and returns its answers.
Send = Callable[[Sequence[Operation]], Awaitable[Sequence[Any]]]


async def run_rounds(
    batch: Sequence[Operation],
    keys: Callable[[Operation], Sequence[Hashable]],
    size: Callable[[Operation], int],
    send: Send[Operation],
) -> list[Any]:
    """Carries out a batch round by round; an operation that the database refuses spoils none of its neighbours.

    When the database is away, what follows is not even tried: each try would have its own patience, and those who wait
    are to hear of it soon."""
    answers: list[Any] = [None] * len(batch)
    away: StoreUnavailable | None = None
    for places in rounds(batch, keys):
        for part in _bounded(places, [size(batch[place]) for place in places]):
            said = [away] * len(part) if away else await _send_all(send, [batch[place] for place in part])
            away = next((one for one in said if isinstance(one, StoreUnavailable)), None)
            for place, answer in zip(part, said, strict=True):
                answers[place] = answer
    return answers


def packed(column: Sequence[Any]) -> Sequence[Any]:
    """A column of a statement; one that says nothing is sent empty, and the database takes it for as many nulls."""
    return column if any(value is not None for value in column) else ()


#: The largest part in bytes: arrays of the database have a limit, and so has the patience of those who wait.
_LARGEST_PART = 16 * 1024 * 1024


def _bounded(places: list[int], sizes: list[int]) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    filled = 0
    for place, size in zip(places, sizes, strict=True):
        if parts[-1] and filled + size > _LARGEST_PART:
            parts.append([])
            filled = 0
        parts[-1].append(place)
        filled += size
    return parts


async def _send_all(send: Send[Operation], batch: Sequence[Operation]) -> list[Any]:
    try:
        return list(await send(batch))
    except StoreUnavailable as error:
        return [error] * len(batch)
    except StoreError as error:
        if len(batch) == 1:
            return [error]
    # One operation spoils the statement of all: in halves, and halves of those, its neighbours get their answers.
    middle = len(batch) // 2
    return await _send_all(send, batch[:middle]) + await _send_all(send, batch[middle:])
