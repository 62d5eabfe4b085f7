"""Text and JSON rules for input and output alike: what every database can store, safe display, JSON pointers."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

#: The range of signed 64-bit integers. Few readers preserve larger ones.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
MAX_DEPTH = 64
#: JSON without these, and without escapes, has no NUL, no lone surrogate, no integer beyond 64 bits and no infinite
#: number. Patterns that begin alike are searched five times faster than alternatives.
_SUSPECT = re.compile(rb"[0-9](?:[0-9]{18}|[eE])")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def is_plain(text: bytes, deepest: int = MAX_DEPTH) -> bool:
    """Whether JSON text certainly has no flaw: scanning bytes is faster than checking values."""
    is_flat = text.count(b"[") + text.count(b"{") <= deepest
    return is_flat and b"\\" not in text and _SUSPECT.search(text) is None


def first_flaw(value: Any, deepest: int = MAX_DEPTH) -> str | None:
    """Return what in a JSON value cannot be stored and where, or None."""
    stack: list[tuple[Any, str, int]] = [(value, "", 1)]
    while stack:
        item, path, depth = stack.pop()
        kind = type(item)
        if kind is dict or kind is list:
            if depth > deepest:
                return f"{path or 'the value'}: nested deeper than {deepest} levels"
            for name, child in _children(item):
                if kind is dict and (flaw := _name_flaw(name, item)):
                    return f"a name in {path or 'the value'}: {flaw}"
                child_path = (f"{path}.{name}" if path else str(name)) if kind is dict else f"{path}[{name}]"
                stack.append((child, child_path, depth + 1))
        elif flaw := scalar_flaw(item):
            return f"{path or 'the value'}: {flaw}"
    return None


def _children(item: Any) -> Iterator[tuple[Any, Any]]:
    return iter(item.items()) if isinstance(item, dict) else iter(enumerate(item))


def scalar_flaw(item: Any) -> str | None:
    """Return why a number or a text cannot be stored, or None."""
    kind = type(item)
    if kind is str:
        return string_flaw(item)
    if kind is int and not SMALLEST_INTEGER <= item <= LARGEST_INTEGER:
        return "an integer beyond 64 bits; send it as a string"
    if kind is float and not math.isfinite(item):
        return "not a finite number"
    return None


def _name_flaw(name: Any, siblings: dict[Any, Any]) -> str | None:
    """Return why a name cannot be stored, or None. JSON names are texts: two may become the same."""
    if type(name) is str:
        return string_flaw(name)
    if type(name) is float and not math.isfinite(name):
        return "not a finite number"
    return "stands twice, once as a text" if str(name) in siblings else None


def string_flaw(text: str) -> str | None:
    """Return why a text cannot be stored, or None."""
    if text.isascii():
        return "contains the character NUL" if "\x00" in text else None
    if "\x00" in text:
        return "contains the character NUL"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "contains half of a surrogate pair"
    return None


def escaped(text: str) -> str:
    """Return a text on one line without control or invisible characters, which are escaped."""
    return text if text.isprintable() else "".join(map(_escaped_char, text))


def escaped_lines(text: str) -> str:
    """Escape a text line by line."""
    return "\n".join(map(escaped, text.split("\n")))


def _escaped_char(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs":
        return char
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two: `90 s`, `3 min`, `2.5 h`."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} d"


def counted(number: int, noun: str) -> str:
    """Return `1 partial`, `2 partials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_ESCAPE = re.compile(r"~(?![01])")


def pointer_parts(pointer: str) -> list[str]:
    """Return the names and positions of a JSON pointer; `ValueError` if it is not one. `""` is the whole."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} does not start with a slash; write /{pointer}")
    if _ESCAPE.search(pointer):
        raise ValueError(f"{pointer!r} has a ~ on its own; write ~0 for a tilde and ~1 for a slash in a name")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def pointer_to(parts: Sequence[object], longest: int) -> str:
    """Return the JSON pointer of names and positions; a long one is cut in the middle. `""` is the whole."""
    half = longest // 2
    escaped = [str(part)[:half].replace("~", "~0").replace("/", "~1") for part in parts]
    pointer = "".join(f"/{part}" for part in escaped)
    return pointer if len(pointer) <= longest else f"{pointer[:half]}…{pointer[-half:]}"
