"""The Prefer header (RFC 7240): what we honour, with everything unknown ignored."""

import msgspec

LONGEST_WAIT = 30
#: Nobody means a number with so many digits.
_ABSURD = 10


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
    """Several headers are one list; of a repeated preference the first counts."""
    found: dict[str, str] = {}
    for part in ",".join(headers).split(","):
        token, _, value = part.split(";", 1)[0].partition("=")
        found.setdefault(token.strip().lower(), value.strip().strip('"'))
    wait = found.get("wait", "")
    return Preferences(
        respond_async="respond-async" in found,
        wait=int(wait) if wait.isascii() and wait.isdigit() and len(wait) < _ABSURD else None,
    )
