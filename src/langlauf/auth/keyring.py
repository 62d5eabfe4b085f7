"""The keys of the store in memory: a request is authenticated without asking the store.

Once a second, and only while somebody calls, the store is asked for what has changed; for a key that is not known it is
asked at once, together with whoever else comes with one. So a new key works at its first use, a revoked one is refused
by every process within a second, a flood of made-up keys costs a few small reads and no memory, and a key that was
revoked leaves no trace that would tell it from one that never was.
"""

import asyncio

from langlauf.clock import Clock, monotonic
from langlauf.domain.instant import Instant
from langlauf.domain.keys import HashedKey
from langlauf.store.admin import AccessStore

#: How old what is known may be. The contract gives five seconds.
FRESH_SECONDS = 1.0
#: Whoever shows an unknown key waits for the next look, and looks are so far apart.
SHORTEST_PAUSE = 0.02
#: When keys were used is written down so often.
USES_EVERY_SECONDS = 60.0


class Keyring:
    """All keys that have not been revoked, as they were within the last second."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._keys: dict[str, HashedKey] = {}
        self._version = 0
        self._looked_at = float("-inf")
        #: whether anything was ever learnt: before that, nothing can be remembered
        self.learnt = False
        self._looking = asyncio.Lock()
        self._uses: dict[str, Instant] = {}

    @property
    def empty(self) -> bool:
        """Whether no key was ever made."""
        return self._version == 0

    def now(self) -> Instant:
        """The time that keys expire by."""
        return self._clock.now()

    def find(self, key_id: str | None) -> HashedKey | None:
        """A key that opens something right now."""
        found = None if key_id is None else self._keys.get(key_id)
        return found if found is not None and found.key.live(self._clock.now()) else None

    @property
    def fresh(self) -> bool:
        """Whether the last look is not too long ago."""
        return monotonic() - self._looked_at < FRESH_SECONDS

    async def refresh(self) -> None:
        """Learns of changes, where the last look is too long ago; whoever comes meanwhile waits for the same look."""
        if not self.fresh:
            async with self._looking:
                if not self.fresh:
                    await self._look()

    async def look_again(self) -> None:
        """Learns of changes up to this moment: a key that was just made is worth a look, but not many a second."""
        came_at = monotonic()
        async with self._looking:
            if self._looked_at < came_at:
                await asyncio.sleep(self._looked_at + SHORTEST_PAUSE - monotonic())
                await self._look()

    async def _look(self) -> None:
        began = monotonic()
        changes = await self._store.key_changes(self._version)
        for one in changes.changed:
            if one.key.revoked_at is None:
                self._keys[one.key.key_id] = one
            else:
                self._keys.pop(one.key.key_id, None)
        self._version = changes.version
        self._looked_at = began
        self.learnt = True

    def forget(self) -> None:
        """Makes the next request look: something was changed in this very process."""
        self._looked_at = float("-inf")

    def used(self, key_id: str) -> None:
        """Remembers that a key was used."""
        self._uses[key_id] = self._clock.now()

    async def write_uses(self) -> None:
        """Writes down when keys were used, all at once; what cannot be written now is written next time."""
        uses, self._uses = self._uses, {}
        if uses:
            try:
                await self._store.note_key_uses(uses)
            except BaseException:
                self._uses = uses | self._uses
                raise
