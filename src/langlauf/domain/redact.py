"""Takes secrets out of texts before they are stored, logged or sent."""

import re
from collections.abc import Mapping
from typing import Any

from langlauf.domain.secret_names import secret_name
from langlauf.domain.secret_shapes import MASK, SHAPES
from langlauf.domain.secret_values import mask_named
from langlauf.domain.text import first_flaw

PATH_MASK = "[path]"
_LONGEST_MESSAGE = 2_000
_DEEPEST_DETAILS = 4
_MOST_DETAILS = 50
#: Of a longer text only the beginning is looked at, and kept.
_LONGEST_LOOKED_AT = 262_144
_LONGEST_SECRET = 16_384
_ROOM_FOR_MASKS = 4 * len(MASK)
_SIGNS = [(sign, shape) for shape in SHAPES for sign in shape.signs]
__all__ = [
    "MASK",
    "clean_details",
    "clean_message",
    "clean_tail",
    "clean_text",
    "redacted",
    "secret_name",
    "without_paths",
]

#: An absolute path of two parts or more, as exceptions of files have it; an address behind `://` is none.
_PATH = re.compile(r"(?<![\w:/.\]])/[\w.@+~-]+(?:/[\w.@+~-]+)+/?")


def redacted(text: str) -> str:
    """The text with everything that looks like a secret masked. Masking twice changes nothing."""
    low = text.lower()
    for shape in dict.fromkeys([shape for sign, shape in _SIGNS if sign in low]):
        text = shape.pattern.sub(shape.replacement, text)
    return mask_named(text)


def clean_text(text: str, longest: int) -> str:
    """The beginning of a text, fit to be stored and shown: no secrets, no characters a database refuses.

    Secrets are masked before the text is cut: half of one would not be known for what it is.
    """
    text = redacted(_storable(_bounded(text)))
    if len(text) <= longest:
        return text
    shown = _unbroken(text[: longest - 1]) + "…"
    # A word that lost its end may look like a secret now.
    return shown if redacted(shown) == shown else redacted(_unbroken(text[: longest - _ROOM_FOR_MASKS]) + "…")[:longest]


def clean_tail(text: str, longest: int) -> str:
    """The same for a text whose end counts."""
    text = redacted(_storable(text[-_LONGEST_LOOKED_AT:]))
    if len(text) <= longest:
        return text
    tail = text[1 - longest :]
    mask = tail.find("]", 0, len(MASK))
    return "…" + (tail[mask + 1 :] if mask >= 0 and MASK.endswith(tail[: mask + 1]) else tail)


def _storable(text: str) -> str:
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _bounded(text: str) -> str:
    """A text of a length that can be looked through; what may be half a secret at its end is left out."""
    if len(text) <= _LONGEST_LOOKED_AT:
        return text
    kept = text[:_LONGEST_LOOKED_AT]
    unbroken = len(kept) - max(kept.rfind(" "), kept.rfind("\n")) - 1
    return kept[: len(kept) - min(unbroken, _LONGEST_SECRET)]


def _unbroken(text: str) -> str:
    """A text that does not end inside a mask: half of one would be taken for a secret."""
    start = text.rfind("[", -len(MASK))
    return text[:start] if start >= 0 and MASK.startswith(text[start:]) and not text.endswith("]") else text


def without_paths(text: str) -> str:
    """The text without where things lie on the machine: that is for the log, not for whoever asked."""
    return _PATH.sub(PATH_MASK, text)


def clean_message(text: str) -> str:
    """An error text, fit to be stored."""
    return clean_text(text, _LONGEST_MESSAGE)


def clean_details(value: Any, depth: int = 0) -> Any:
    """Details of an error, whatever they are, as a small JSON value without secrets."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and first_flaw(value) is None:
        return value
    if depth < _DEEPEST_DETAILS and isinstance(value, Mapping):
        pairs = list(value.items())[:_MOST_DETAILS]
        return {clean_message(_shown_name(name)): _clean_named(_shown_name(name), item, depth) for name, item in pairs}
    if depth < _DEEPEST_DETAILS and isinstance(value, list | tuple):
        return [clean_details(item, depth + 1) for item in value[:_MOST_DETAILS]]
    return clean_message(value if isinstance(value, str) else _shown(value))


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be shown still has a type
        return type(value).__name__


def _shown_name(name: Any) -> str:
    return name if isinstance(name, str) else _shown(name)


def _clean_named(name: str, value: Any, depth: int) -> Any:
    return MASK if secret_name(name) else clean_details(value, depth + 1)
