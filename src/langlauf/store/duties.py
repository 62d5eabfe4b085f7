"""What every store promises about duties: their successes are noted, and whoever asks sees the last of each."""

from typing import Protocol

from langlauf.domain.duties import DutyDone


class DutyStore(Protocol):
    """When upkeep last succeeded. It is no tenant data, and nothing but people depends on it."""

    async def note(self, name: str, host: str) -> None:
        """A duty has just done what it is for, at the store's own time."""

    async def seen(self) -> list[DutyDone]:
        """The last success of each, by name."""
