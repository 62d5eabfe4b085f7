"""The keys of the store in memory: a request is authenticated without asking the store.

Once a second, and only while somebody calls, the store is asked for what has changed; for a key that is not known it is
asked at once, together with whoever else comes with one. So a new key works at its first use, a revoked one is refused
by every process within a second, a flood of made-up keys costs a few small reads and no memory, and a key that was
revoked leaves no trace that would tell it from one that never was."""

import asyncio
import hashlib
import hmac

from langlauf.auth.caller import Caller
from langlauf.clock import Clock, monotonic
from langlauf.domain.access import (
    ALL_SCOPES,
    CAPABILITY_ISSUER,
    OPEN_ISSUER,
    Grant,
    HashedKey,
    Scope,
    hash_key,
    is_key_id,
    key_id_of,
)
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant
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


_OPERATOR = "operator-"
#: Compared with where there is nothing to compare with, so that a miss takes the same steps as a hit.
_NO_HASH = "0" * 64
_TO_ALL = Grant(issuer=OPEN_ISSUER, org_id=None, scopes=ALL_SCOPES)


class Authenticator:
    """Decides whether what a caller shows is good. Everything it needs is in memory, or a second old at the most."""

    def __init__(self, keyring: Keyring, auth_token: str | None, *, by_id: bool) -> None:
        self._keyring = keyring
        self._by_id = by_id
        self._operator_hash = _NO_HASH if auth_token is None else hash_key(auth_token.encode())
        self._operator = None if auth_token is None else _OPERATOR + _fingerprint(auth_token)

    @property
    def open(self) -> bool:
        """Whether nobody is asked for a key: none was ever made, and there is no operator's token."""
        return self._operator is None and self._keyring.empty

    @property
    def without_operator(self) -> bool:
        """Whether callers are asked for a key, and there is no operator's token that opens what no key does."""
        return self._operator is None and not self._keyring.empty

    @property
    def fresh(self) -> bool:
        """Whether what was learnt last is new enough."""
        return self._keyring.fresh

    async def refresh(self) -> None:
        """Learns of keys that were made or revoked. Everything else here is about what was learnt last."""
        await self._keyring.refresh()

    async def refresh_if_possible(self) -> None:
        """The same, but what was learnt last is enough where the store is away: for what shows nothing of any org."""
        try:
            await self.refresh()
        except StoreError:
            if not self._keyring.learnt:
                raise

    def now(self) -> Instant:
        """The time that whatever is shown ends by."""
        return self._keyring.now()

    def forget(self) -> None:
        """Makes the next request look again: this process has just made or revoked a key."""
        self._keyring.forget()

    def used(self, issuer: str) -> None:
        """Remembers that a key was used, by itself or by what was made with it."""
        if is_key_id(issuer):
            self._keyring.used(issuer)

    async def by_secret(self, shown: bytes) -> Grant | None:
        """What a key or the operator's token stands for.

        Unknown, revoked, expired: each takes the same steps, so that none can be told from another by its time. What
        is not even written like a key is not looked for.
        """
        key_id = key_id_of(shown.decode("ascii", "replace"))
        if key_id is not None and self._keyring.find(key_id) is None:
            await self._keyring.look_again()
        found = self._keyring.find(key_id)
        shown_hash = hash_key(shown)
        is_key = hmac.compare_digest(shown_hash, _NO_HASH if found is None else found.secret_hash)
        is_operator = hmac.compare_digest(shown_hash, self._operator_hash)
        if found is not None and is_key:
            self.used(found.key.key_id)
            return self.by_issuer(found.key.key_id)
        return self.by_issuer(self._operator) if is_operator and self._operator is not None else None

    def by_issuer(self, issuer: str) -> Grant | None:
        """What somebody who vouched for a caller may do now; None once they may not any more."""
        if issuer == OPEN_ISSUER:
            return _TO_ALL if self.open else None
        if issuer == CAPABILITY_ISSUER:
            return Grant(issuer=CAPABILITY_ISSUER, org_id=None, scopes=frozenset({Scope.READ})) if self._by_id else None
        if issuer == self._operator:
            return Grant(issuer=issuer, org_id=None, scopes=ALL_SCOPES)
        found = self._keyring.find(issuer)
        if found is None:
            return None
        key = found.key
        return Grant(issuer=key.key_id, org_id=key.org_id, scopes=key.scopes, expires_at=key.expires_at)

    async def allows(self, caller: Caller) -> bool:
        """Whether a caller who is served for a while, by a stream or a wait, may still be."""
        grant = caller.grant
        if grant is None:
            return True
        await self.refresh()
        over = grant.expires_at is not None and self.now() >= grant.expires_at
        return not over and self.by_issuer(grant.issuer) is not None


def _fingerprint(token: str) -> str:
    """Tells one operator's token from the next: what the old one vouched for ends with it."""
    return hashlib.sha256(b"langlauf operator " + token.encode()).hexdigest()[:16]
