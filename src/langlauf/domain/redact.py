"""Removes secrets from texts and JSON values before they are stored, logged or sent."""

import re
import reprlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from langlauf.domain.secret_patterns import MASK, SECRET_PATTERNS, is_secret_name
from langlauf.domain.secret_values import mask_named_values
from langlauf.domain.text import first_flaw

PATH_MASK = "[path]"
_LONGEST_MESSAGE = 2_000
_DEEPEST_DETAILS = 4
_MOST_DETAILS = 50
#: The most values in the details of one error, over all levels.
_MOST_VALUES = 200
_MOST_LETTERS = 10_000
_SHORTEST_TEXT = 20
#: Of a longer text only the start is examined and kept.
_LONGEST_LOOKED_AT = 262_144
_LONGEST_SECRET = 16_384
_ROOM_FOR_MASKS = 4 * len(MASK)
_SIGNS = [(sign, shape) for shape in SECRET_PATTERNS for sign in shape.signs]
__all__ = [
    "MASK",
    "bounded_repr",
    "clean_details",
    "clean_message",
    "clean_tail",
    "clean_text",
    "exception_text",
    "is_secret_name",
    "redact",
    "without_paths",
]

#: An absolute path of two or more parts, as in exceptions about files; not a URL.
_PATH = re.compile(r"(?<![\w:/.\]])/[\w.@+~-]+(?:/[\w.@+~-]+)+/?")


def redact(text: str) -> str:
    """Return the text with everything masked that looks like a secret. Idempotent."""
    low = text.lower()
    for shape in dict.fromkeys([shape for sign, shape in _SIGNS if sign in low]):
        text = shape.mask(text)
    return mask_named_values(text)


def clean_text(text: str, longest: int) -> str:
    """Return the start of a text, safe to store and show: no secrets, no characters that a database rejects.

    Secrets are masked before the text is cut: half of one would not be recognized.
    """
    text = redact(_storable(_bounded(text)))
    if len(text) <= longest:
        return text
    start = _unbroken(text[: longest - 1]) + "…"
    # A word that lost its end may look like a secret now.
    return start if redact(start) == start else redact(_unbroken(text[: longest - _ROOM_FOR_MASKS]) + "…")[:longest]


def clean_tail(text: str, longest: int) -> str:
    """Return the end of a text, safe to store and show."""
    text = redact(_storable(text[-_LONGEST_LOOKED_AT:]))
    if len(text) <= longest:
        return text
    tail = text[1 - longest :]
    mask = tail.find("]", 0, len(MASK))
    return "…" + (tail[mask + 1 :] if mask >= 0 and MASK.endswith(tail[: mask + 1]) else tail)


def _storable(text: str) -> str:
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _bounded(text: str) -> str:
    """Return the part of a text that is examined; what may be half a secret at its end is dropped."""
    if len(text) <= _LONGEST_LOOKED_AT:
        return text
    kept = text[:_LONGEST_LOOKED_AT]
    unbroken = len(kept) - max(kept.rfind(" "), kept.rfind("\n")) - 1
    return kept[: len(kept) - min(unbroken, _LONGEST_SECRET)]


def _unbroken(text: str) -> str:
    """Return a text that does not end inside a mask: half of one would be taken for a secret."""
    start = text.rfind("[", -len(MASK))
    return text[:start] if start >= 0 and MASK.startswith(text[start:]) and not text.endswith("]") else text


def without_paths(text: str) -> str:
    """Return the text without paths of this machine: they are for the log, not for the caller."""
    return _PATH.sub(PATH_MASK, text)


def clean_message(text: str) -> str:
    """Return an error text that is safe to store."""
    return clean_text(text, _LONGEST_MESSAGE)


def exception_text(error: BaseException, *, named: bool = True) -> str:
    """Return the text of an exception, with `named` also its type. Never raises, and is bounded."""
    name = type(error).__name__
    try:
        text = _said(error)[: 4 * _LONGEST_MESSAGE]
    except BaseException:  # noqa: BLE001 - an exception that cannot say what it is still has a name
        return name
    if not text:
        return name
    return f"{name}: {text}" if named else text


def _said(error: BaseException) -> str:
    """Return the text of an exception; if it is the repr of its arguments, a bounded one."""
    plain = type(error).__str__ is BaseException.__str__
    if plain and not all(type(argument) is str for argument in error.args):
        return _SHORT.repr(error.args[0] if len(error.args) == 1 else error.args)
    return str(error)


def clean_details(value: Any) -> Any:
    """Return details of an error as a small JSON value without secrets."""
    return _Details().clean(value, 0)


class _Details:
    """Counts what it copied: details may be wide on every level, or contain themselves."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._letters = _MOST_LETTERS

    def clean(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and first_flaw(value) is None:
            return value
        if depth < _DEEPEST_DETAILS and isinstance(value, Mapping):
            pairs = [(_shown_name(name), item) for name, item in self._some(value.items())]
            return {clean_message(name): self._clean_named(name, item, depth) for name, item in pairs}
        if depth < _DEEPEST_DETAILS and isinstance(value, list | tuple):
            return [self.clean(item, depth + 1) for item in self._some(value)]
        text = clean_text(
            value if isinstance(value, str) else bounded_repr(value), min(_LONGEST_MESSAGE, self._letters)
        )
        self._letters = max(_SHORTEST_TEXT, self._letters - len(text))
        return text

    def _some(self, items: Iterable[Any]) -> list[Any]:
        return list(islice(items, max(0, min(_MOST_DETAILS, self._left))))

    def _clean_named(self, name: str, value: Any, depth: int) -> Any:
        return MASK if is_secret_name(name) else self.clean(value, depth + 1)


def _short() -> reprlib.Repr:
    """Return a bounded repr for containers and texts."""
    short = reprlib.Repr()
    short.maxlevel = _DEEPEST_DETAILS
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = short.maxdeque = _MOST_DETAILS
    short.maxarray = _MOST_DETAILS
    short.maxstring = short.maxother = short.maxlong = _LONGEST_MESSAGE
    return short


_SHORT = _short()


def bounded_repr(value: Any) -> str:
    """Return the repr of a value, of a large one a part."""
    try:
        return _SHORT.repr(value)
    except BaseException:  # noqa: BLE001 - a value that cannot be shown still has a type
        return type(value).__name__


def _shown_name(name: Any) -> str:
    return name if isinstance(name, str) else bounded_repr(name)


def redact_json(value: Any) -> Any:
    """Return a JSON value with everything masked that looks like a secret."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _masked_under(name, item) for name, item in value.items()}
    return value


def _masked_under(name: str, item: Any) -> Any:
    """Mask a text, list or object under the name of a secret; otherwise mask inside."""
    if isinstance(item, str | list | dict) and item and is_secret_name(name):
        return MASK
    return redact_json(item)
