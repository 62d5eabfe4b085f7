"""Text and JSON rules for input and output alike: what every database can store, safe display, JSON pointers."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

#: What 64 bits with a sign hold, such as the keys of a database. Few readers keep larger ones exactly.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
MAX_DEPTH = 64
#: Without any of these JSON has no NUL, no half of a pair, no integer beyond 64 bits and no number that is not finite.
_SUSPECT = re.compile(rb"\\|[0-9]{19}|[0-9][eE]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def is_plain(text: bytes, deepest: int = MAX_DEPTH) -> bool:
    """Whether JSON text holds nothing that could be a flaw: a look at its bytes is faster than one at its values."""
    return text.count(b"[") + text.count(b"{") <= deepest and _SUSPECT.search(text) is None


def first_flaw(value: Any, deepest: int = MAX_DEPTH) -> str | None:
    """Says what in a value of JSON types cannot be kept and where, or None where all of it can."""
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
    """Says why a number or a text cannot be kept, or None where it can."""
    kind = type(item)
    if kind is str:
        return string_flaw(item)
    if kind is int and not SMALLEST_INTEGER <= item <= LARGEST_INTEGER:
        return "an integer beyond 64 bits; send it as a string"
    if kind is float and not math.isfinite(item):
        return "not a finite number"
    return None


def _name_flaw(name: Any, siblings: dict[Any, Any]) -> str | None:
    """JSON writes every name as a text: two that become the same cannot both be kept."""
    if type(name) is str:
        return string_flaw(name)
    if type(name) is float and not math.isfinite(name):
        return "not a finite number"
    return "stands twice, once as a text" if str(name) in siblings else None


def string_flaw(text: str) -> str | None:
    """Says why a text cannot be kept, or None where it can."""
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
    """A text on one line, in which nothing steers a terminal or hides: what cannot be seen is written as an escape."""
    return text if text.isprintable() else "".join(map(_escaped_char, text))


def escaped_lines(text: str) -> str:
    """The same for a text that has lines of its own."""
    return "\n".join(map(escaped, text.split("\n")))


def _escaped_char(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs":
        return char
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


_ESCAPE = re.compile(r"~(?![01])")


def pointer_parts(pointer: str) -> list[str]:
    """The names and positions that a pointer goes through; raises `ValueError` where it is none. `""` is the whole."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} does not start with a slash; write /{pointer}")
    if _ESCAPE.search(pointer):
        raise ValueError(f"{pointer!r} has a ~ on its own; write ~0 for a tilde and ~1 for a slash in a name")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def pointer_to(parts: Sequence[object], longest: int) -> str:
    """The pointer through these names and positions; a long one is cut in its middle. `""` is the whole."""
    half = longest // 2
    escaped = [str(part)[:half].replace("~", "~0").replace("/", "~1") for part in parts]
    pointer = "".join(f"/{part}" for part in escaped)
    return pointer if len(pointer) <= longest else f"{pointer[:half]}…{pointer[-half:]}"
