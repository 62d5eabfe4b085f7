"""raw"""

import re

import msgspec
from msgspec import Raw

from langlauf.domain.redact import MASK, is_secret_name
from langlauf.domain.text import pointer_parts

NULL = Raw(b"null")
_NUMBER_STARTS = frozenset({b"-", *(str(digit).encode() for digit in range(10))})
_MASKED = msgspec.json.encode(MASK)
_LIST_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
#: Deeper than this nothing of a result is looked into.
MAX_MASK_DEPTH = 64


def parse_raw(text: str) -> Raw:
    """Stored JSON, to be looked into."""
    return Raw(text.strip().encode())


def first_byte(value: Raw) -> bytes:
    """What tells the kind of a value."""
    return bytes(memoryview(value)[:1])


def is_object(value: Raw) -> bool:
    """Whether it has members."""
    return first_byte(value) == b"{"


def is_list(value: Raw) -> bool:
    """Whether it has items."""
    return first_byte(value) == b"["


def is_text(value: Raw) -> bool:
    """Whether it is a string."""
    return first_byte(value) == b'"'


def is_number(value: Raw) -> bool:
    """Whether it is a number."""
    return first_byte(value) in _NUMBER_STARTS


def members(value: Raw) -> dict[str, Raw]:
    """The members of an object; nothing where it is none, or one that is nested beyond reason."""
    if not is_object(value):
        return {}
    try:
        return msgspec.json.decode(value, type=dict[str, Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}


def items(value: Raw) -> list[Raw]:
    """The items of a list; nothing where it is none, or one that is nested beyond reason."""
    if not is_list(value):
        return []
    try:
        return msgspec.json.decode(value, type=list[Raw])
    except (msgspec.MsgspecError, RecursionError):
        return []


def raw_text(value: Raw) -> str:
    """A string without its quotes; a number, true, false or null as it was written; the rest as JSON."""
    if is_text(value):
        return msgspec.json.decode(value, type=str)
    return bytes(value).decode()


def at_pointer(value: Raw, pointer: str) -> Raw | None:
    """What stands where a JSON pointer (RFC 6901) leads; None where it leads nowhere."""
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
    """The JSON pointer along some names."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def is_hidden(name: str, value: Raw) -> bool:
    """Whether a member is not shown: a text under a name of secrets, or what was masked before it was stored."""
    if is_text(value):
        return is_secret_name(name) or bytes(value) == f'"{MASK}"'.encode()
    return is_secret_name(name) and first_byte(value) in (b"{", b"[")


def mask_secrets(value: Raw, depth: int = 0) -> Raw:
    """The same JSON with what is hidden masked. Where nothing is, it is the very same."""
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
    """Whether there are only numbers, and at least one."""
    return bool(values) and all(is_number(one) for one in values)
