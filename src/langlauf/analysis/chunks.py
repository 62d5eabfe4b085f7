"""Chunks of `job.map` with keys that are the same in every attempt, and the progress that an analysis reports."""

import contextlib
import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from string import Formatter
from typing import Any, TypeVar

import msgspec

from langlauf.analysis.payload import encode, is_small
from langlauf.analysis.registry import reference_to
from langlauf.domain.errors import LanglaufError, ResultUnstorable
from langlauf.domain.provenance import MOST_SOURCES, TRAIL, Source, declared_source
from langlauf.domain.redact import bounded_repr, clean_text, is_secret_name
from langlauf.domain.text import first_flaw

_LONGEST_STEP = 200
#: A width in a format that wastes memory, or that comes from the item.
_TOO_WIDE = re.compile(r"\{|[0-9]{4}")
_WHOLE_ITEM = ("", "0")
#: Fields that name a record, the best first; of a record without one the first few values are shown.
_NAMES = ("label", "title", "name", "id", "key")
_MOST_FIELDS, _MOST_SHOWN = 50, 3
_SHOWN_IN_PART = frozenset({str, dict, list, tuple, set, frozenset})


def check_percent(number: float | None) -> float | None:
    """Return a percentage that is a finite number, or None."""
    if number is None:
        return None
    percent = float(number)
    if not math.isfinite(percent):
        raise ValueError(f"progress must be a number from 0 to 100, not {number}")
    return percent


def clean_step(text: str | None) -> str | None:
    """Return the text of a step, safe to store and to show on one line."""
    return None if text is None else clean_text(str(text), _LONGEST_STEP)


def format_step(step: str | None, item: Any) -> str | None:
    """Return the step with the item filled in. Invalid braces are plain text: no step breaks a job.

    Of a large item only a part is read: this may run on the worker's event loop.
    """
    if step is None:
        return None
    with contextlib.suppress(Exception):
        return _filled(step, item)
    with contextlib.suppress(Exception):
        return step.replace("{}", str(_brief(item)))
    return step  # the item has no text


def _filled(step: str, item: Any) -> str:
    """Return the step as a format; `ValueError` if it has an absurd width."""
    fields = [(name, form) for _, name, form, _ in Formatter().parse(step)]
    if any(form and _TOO_WIDE.search(form) for _, form in fields):
        raise ValueError("a step has no room for that")
    return step.format(_brief(item) if any(name in _WHOLE_ITEM for name, _ in fields) else item)


def _brief(item: Any) -> Any:
    """Return the item, or what a step has room for: the values of a record, a part of a large text or list."""
    if (fields := _fields_of(item)) is not None:
        return _record_text(fields) or type(item).__name__
    if type(item) not in _SHOWN_IN_PART or is_small(item):
        return item
    return item[:_LONGEST_STEP] if isinstance(item, str) else bounded_repr(item)


def _fields_of(item: Any) -> Mapping[str, Any] | None:
    """Return the fields of a record that has no text of its own, or None for anything else."""
    kind = type(item)
    if kind is dict:
        return dict(islice(((name, value) for name, value in item.items() if isinstance(name, str)), _MOST_FIELDS))
    if isinstance(item, tuple) and hasattr(kind, "_fields"):
        names: Iterable[str] = kind._fields
    elif "__str__" in {name for base in kind.__mro__[:-1] for name in vars(base)} and not hasattr(kind, "model_fields"):
        return None
    else:
        known = ("__dataclass_fields__", "__struct_fields__", "model_fields")
        names = next((getattr(kind, one) for one in known if hasattr(kind, one)), ())
        names = names or [field.name for field in getattr(kind, "__attrs_attrs__", ())]
    return {name: getattr(item, name) for name in islice(names, _MOST_FIELDS)} or None


def _record_text(fields: Mapping[str, Any]) -> str:
    """Return the name of a record, else its first plain values. Secrets are left out with the names that mark them."""
    plain = {
        name: str(value)[:_LONGEST_STEP]
        for name, value in fields.items()
        if isinstance(value, str | int | float) and str(value) and not is_secret_name(name)
    }
    named = next((plain[name] for name in _NAMES if name in plain), None)
    return ", ".join(list(plain.values())[:_MOST_SHOWN]) if named is None else named


Item = TypeVar("Item")
#: Steps of fast chunks are not all written; people cannot read faster than this.
STEP_INTERVAL = 0.25
#: The key of a chunk: a prefix of the item's hash, or a function that returns the whole key.
ChunkKey = str | Callable[[Any], str] | None


class Chunks(msgspec.Struct, frozen=True):
    """The chunks of one `job.map`: the function, their keys, and their items as JSON text."""

    function: str
    keys: list[str]
    items: list[str]


def split_chunks(function: Callable[..., Any], items: Iterable[Any], key: ChunkKey, largest: int) -> Chunks:
    """Return one chunk per item. Equal items share a key, whatever the order of their names, and are computed once."""
    reference = reference_to(function)
    known = list(items)
    texts = [encode(item, largest, "sorted") for item in known]
    if callable(key):
        keys = [check_chunk_key(str(key(item))) for item in known]
        _refuse_shared(keys, texts)
    else:
        word = check_chunk_key(reference if key is None else key)
        keys = [f"{word}:{_hash(text)}" for text in texts]
    return Chunks(reference, keys, texts)


def _refuse_shared(keys: list[str], texts: list[str]) -> None:
    """Refuse two different items under one key: they would silently share a result."""
    first: dict[str, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if first.setdefault(key, text) != text:
            raise ValueError(f"key= gives two different items of the map the same key: {key}")


def check_chunk_key(key: str) -> str:
    """Return the key of a chunk if every store can store it."""
    if not isinstance(key, str):
        raise ValueError(f"the key of a chunk must be text, not {type(key).__name__}")  # noqa: TRY004 - as other bad input
    if flaw := first_flaw(key):
        raise ResultUnstorable(f"the key of a chunk cannot be stored: {flaw}")
    if key.startswith(TRAIL):
        raise ValueError(f"the key of a chunk must not begin with {TRAIL}")
    return key


class _RunningChunk:
    """The chunk of this process, which runs one at a time: a context variable would not reach threads of the chunk."""

    sources: "dict[str, Source] | None" = None


@contextlib.contextmanager
def collected_sources() -> Iterator[dict[str, Source]]:
    """Collect what a chunk declares in any of its threads."""
    found = _RunningChunk.sources = {}
    try:
        yield found
    finally:
        _RunningChunk.sources = None


def source(
    name: str,
    *,
    version: str | None = None,
    hash: str | None = None,  # noqa: A002 - the word for it
    url: str | None = None,
) -> None:
    """Declare a source from a chunk of `job.map`, which has no job: there it is what `job.source` is elsewhere."""
    declared, found = declared_source(name, version, hash, url), _RunningChunk.sources
    if found is None:
        raise LanglaufError("langlauf.source is for chunks of job.map; elsewhere call job.source")
    if len(found) <= MOST_SOURCES:  # one more than are kept, so that the job learns of it
        found[declared.key] = declared


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def with_progress(items: Iterable[Item], step: str | None) -> Iterator[tuple[Item, tuple[int, str | None] | None]]:
    """Yield each item with the percent and step to report before it, or None if that would be too often."""
    known = items if isinstance(items, Sequence) else list(items)
    total = max(len(known), 1)
    shown_percent, shown_at = -1, 0.0
    for index, item in enumerate(known):
        percent = index * 100 // total
        if percent == shown_percent and time.monotonic() - shown_at < STEP_INTERVAL:
            yield item, None
            continue
        shown_percent, shown_at = percent, time.monotonic()
        yield item, (percent, format_step(step, item))
