"""Raw JSON, read step by step and never decoded as a whole, so that numbers keep their digits."""

import re

import msgspec
from msgspec import Raw

from langlauf.domain.redact import MASK, is_secret_name
from langlauf.domain.text import pointer_parts

NULL = Raw(b"null")
_NUMBER_STARTS = frozenset({b"-", *(str(digit).encode() for digit in range(10))})
_MASKED = msgspec.json.encode(MASK)
_LIST_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
#: Values nested deeper are not read.
MAX_MASK_DEPTH = 64


def parse_raw(text: str) -> Raw:
    """Wrap stored JSON."""
    return Raw(text.strip().encode())


def first_byte(value: Raw) -> bytes:
    """Return the first byte, which tells the type."""
    return bytes(memoryview(value)[:1])


def is_object(value: Raw) -> bool:
    """Whether it is an object."""
    return first_byte(value) == b"{"


def is_list(value: Raw) -> bool:
    """Whether it is a list."""
    return first_byte(value) == b"["


def is_text(value: Raw) -> bool:
    """Whether it is a string."""
    return first_byte(value) == b'"'


def is_number(value: Raw) -> bool:
    """Whether it is a number."""
    return first_byte(value) in _NUMBER_STARTS


def members(value: Raw) -> dict[str, Raw]:
    """Return the members of an object; empty for anything else, and where it is nested too deeply."""
    if not is_object(value):
        return {}
    try:
        return msgspec.json.decode(value, type=dict[str, Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}


def items(value: Raw) -> list[Raw]:
    """Return the items of a list; empty for anything else, and where it is nested too deeply."""
    if not is_list(value):
        return []
    try:
        return msgspec.json.decode(value, type=list[Raw])
    except (msgspec.MsgspecError, RecursionError):
        return []


def raw_text(value: Raw) -> str:
    """Return a string without quotes, and any other value as JSON."""
    if is_text(value):
        return msgspec.json.decode(value, type=str)
    return bytes(value).decode()


def at_pointer(value: Raw, pointer: str) -> Raw | None:
    """Return the value at a JSON pointer (RFC 6901), or None."""
    found: Raw | None = value
    try:
        names = pointer_parts(pointer)
    except ValueError:
        return None
    for name in names:
        found = _child(found, name)
    return found


def _child(value: Raw | None, name: str) -> Raw | None:
    if value is None:
        return None
    if is_object(value):
        return members(value).get(name)
    listed = items(value)
    return listed[int(name)] if _LIST_INDEX.fullmatch(name) and int(name) < len(listed) else None


def pointer_to(parts: tuple[str, ...]) -> str:
    """Return the JSON pointer of a path."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def is_hidden(name: str, value: Raw) -> bool:
    """Whether a member is hidden: a value under a secret name, or one that was masked before it was stored."""
    if is_text(value):
        return is_secret_name(name) or bytes(value) == f'"{MASK}"'.encode()
    return is_secret_name(name) and first_byte(value) in (b"{", b"[")


def mask_secrets(value: Raw, depth: int = 0) -> Raw:
    """Return the JSON with secrets masked; the same object where there are none."""
    if depth == 0 and not is_secret_name(bytes(value).decode()):
        return value
    if depth > MAX_MASK_DEPTH:
        return Raw(_MASKED)
    if is_object(value):
        pairs = (
            msgspec.json.encode(name)
            + b":"
            + (_MASKED if is_hidden(name, one) else bytes(mask_secrets(one, depth + 1)))
            for name, one in members(value).items()
        )
        return Raw(b"{" + b",".join(pairs) + b"}")
    if is_list(value):
        return Raw(b"[" + b",".join(bytes(mask_secrets(one, depth + 1)) for one in items(value)) + b"]")
    return value


def all_numbers(values: list[Raw]) -> bool:
    """Whether all are numbers, and there is at least one."""
    return bool(values) and all(is_number(one) for one in values)
