"""How `job.map` cuts work into chunks: each has a key that is the same in every attempt."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from langlauf.analysis.naming import reference_to
from langlauf.analysis.payload import encode
from langlauf.analysis.reporting import step_for
from langlauf.domain.errors import ResultUnstorable
from langlauf.domain.text import first_flaw

Item = TypeVar("Item")
#: Steps of quick chunks need not all be written; people cannot read faster than this.
STEP_SECONDS = 0.25
#: How a chunk is called: a word that stands before the item's hash, or a function that makes the whole key.
Key = str | Callable[[Any], str] | None


class Chunks(msgspec.Struct, frozen=True):
    """The parts of one `job.map`: what computes them, their keys, and their items as JSON text."""

    function: str
    keys: list[str]
    items: list[str]


def cut(function: Callable[..., Any], items: Iterable[Any], key: Key, largest: int) -> Chunks:
    """One chunk per item. Equal items have equal keys, whatever order their names came in, and are computed once."""
    reference = reference_to(function)
    known = list(items)
    texts = [encode(item, largest, "sorted") for item in known]
    if callable(key):
        keys = [usable_key(str(key(item))) for item in known]
        _refuse_shared(keys, texts)
    else:
        word = usable_key(reference if key is None else key)
        keys = [f"{word}:{_hash(text)}" for text in texts]
    return Chunks(reference, keys, texts)


def _refuse_shared(keys: list[str], texts: list[str]) -> None:
    """Two different items under one key would silently get one result."""
    first: dict[str, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if first.setdefault(key, text) != text:
            raise ValueError(f"key= gives two different items of the map the same key: {key}")


def usable_key(key: str) -> str:
    """A chunk's key that every store can keep."""
    if not isinstance(key, str):
        raise ValueError(f"the key of a chunk must be text, not {type(key).__name__}")  # noqa: TRY004 - as other bad input
    if flaw := first_flaw(key):
        raise ResultUnstorable(f"the key of a chunk cannot be kept: {flaw}")
    return key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def announced(items: Iterable[Item], step: str | None) -> Iterator[tuple[Item, tuple[int, str | None] | None]]:
    """Each item, with the percent and the step to report before it; None where people could not read that fast."""
    known = items if isinstance(items, Sequence) else list(items)
    total = max(len(known), 1)
    shown_percent, shown_at = -1, 0.0
    for index, item in enumerate(known):
        percent = index * 100 // total
        if percent == shown_percent and time.monotonic() - shown_at < STEP_SECONDS:
            yield item, None
            continue
        shown_percent, shown_at = percent, time.monotonic()
        yield item, (percent, step_for(step, item))
