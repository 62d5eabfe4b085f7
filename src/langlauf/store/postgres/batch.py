"""Batches of writes as the database takes them: rounds, bounded parts, keys and storable text.

A batch whose response was lost is sent again with a flag. What it wrote shows whether it was committed; outcomes that
do not show are stored for an hour. While the first try still runs, the retry waits for its row locks.

Text with NUL or lone surrogates cannot be stored, so nothing is found by such a name. Records have keys of 16 bytes:
the id itself where it is a UUID; other ids, which imports bring, have a key derived from them.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.group_commit import rounds

Operation = TypeVar("Operation")
#: Sends operations and returns their outcomes.
Send = Callable[[Sequence[Operation]], Awaitable[Sequence[Any]]]
#: Largest part of a batch in bytes: arrays of the database are limited, and so is a caller's timeout.
_MAX_PART_BYTES = 16 * 1024 * 1024

is_uuid = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
is_hex = re.compile(r"[0-9a-f]{32}").fullmatch


async def run_rounds(
    batch: Sequence[Operation],
    keys: Callable[[Operation], Sequence[Hashable]],
    size: Callable[[Operation], int],
    send: Send[Operation],
) -> list[Any]:
    """Send a batch round by round; an operation that the database refuses does not fail the others.

    When the database is unavailable, the remaining parts fail without a try: each try would have a timeout of its own.
    """
    outcomes: list[Any] = [None] * len(batch)
    unavailable: StoreUnavailable | None = None
    for places in rounds(batch, keys):
        for part in _bounded_parts(places, [size(batch[place]) for place in places]):
            found = (
                [unavailable] * len(part) if unavailable else await _send_part(send, [batch[place] for place in part])
            )
            unavailable = next((one for one in found if isinstance(one, StoreUnavailable)), None)
            for place, outcome in zip(part, found, strict=True):
                outcomes[place] = outcome
    return outcomes


def _bounded_parts(places: list[int], sizes: list[int]) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    filled = 0
    for place, size in zip(places, sizes, strict=True):
        if parts[-1] and filled + size > _MAX_PART_BYTES:
            parts.append([])
            filled = 0
        parts[-1].append(place)
        filled += size
    return parts


async def _send_part(send: Send[Operation], batch: Sequence[Operation]) -> list[Any]:
    try:
        return list(await send(batch))
    except StoreUnavailable as error:
        return [error] * len(batch)
    except StoreError as error:
        if len(batch) == 1:
            return [error]
    # One operation fails the statement of all: bisect, so that the others succeed.
    middle = len(batch) // 2
    return await _send_part(send, batch[:middle]) + await _send_part(send, batch[middle:])


def storable(text: str) -> bool:
    """Whether a column of type text can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def storable_or_none(text: str) -> str | None:
    """Return a text to look for, or None, which equals nothing, if no row can hold it."""
    return text if storable(text) else None


def key_of(record_id: str) -> str:
    """Return the key of a record, as the database function `key_of` makes it."""
    if is_uuid(record_id):
        return record_id
    return str(UUID(bytes=hashlib.sha256(record_id.encode(errors="surrogatepass")).digest()[:16]))


def name_unless_uuid(record_id: str | None) -> str | None:
    """Return an id that is not its own key."""
    return None if record_id is None or is_uuid(record_id) else record_id
