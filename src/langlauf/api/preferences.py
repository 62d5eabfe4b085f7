"""The Prefer header (RFC 7240): what we honour, with everything unknown ignored."""

import re
from collections.abc import Iterator

import msgspec

LONGEST_WAIT = 30
#: A number with more digits is past every limit, and not worth being read.
_DIGITS = 9
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the word of the grammar
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[^",]+|,', re.DOTALL)
#: One member of the list: a name, perhaps with a value, and parameters, which mean nothing to us.
_MEMBER = re.compile(rf"\s*({_TOKEN})\s*(?:=\s*({_TOKEN}|{_QUOTED})?)?\s*(?:;.*)?", re.DOTALL)


class Preferences(msgspec.Struct, frozen=True):
    """What the caller prefers. `wait` alone means nothing."""

    respond_async: bool = False
    wait: int | None = None

    @property
    def wait_seconds(self) -> int:
        """How long to wait for the end before a 202."""
        return min(self.wait, LONGEST_WAIT) if self.respond_async and self.wait is not None else 0

    @property
    def applied(self) -> str | None:
        """The value of Preference-Applied, where a preference was used."""
        if not self.respond_async:
            return None
        return "respond-async" if self.wait is None else f"respond-async, wait={self.wait_seconds}"


def read_preferences(headers: list[str]) -> Preferences:
    """Several headers are one list; of a repeated preference the first counts, and an empty value is none."""
    found: dict[str, str] = {}
    for name, value in _members(", ".join(headers)):
        found.setdefault(name.lower(), value)
    return Preferences(respond_async=found.get("respond-async") == "", wait=_seconds(found.get("wait", "")))


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Names and values; a comma inside quotes ends nothing, and what cannot be read is passed over."""
    for member in _split(text):
        if match := _MEMBER.fullmatch(member):
            yield match[1], _unquoted(match[2] or "")


def _split(text: str) -> Iterator[str]:
    member = ""
    for piece in _PIECE.findall(text):
        if piece == ",":
            yield member
            member = ""
        else:
            member += piece
    yield member


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _seconds(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= _DIGITS else LONGEST_WAIT
