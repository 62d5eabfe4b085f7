"""Keys of the store, cached in memory, so that requests need no query; creating, listing and revoking them.

Once a second, and only while requests arrive, the cache reads what has changed; for an unknown key it reads at once,
together with all other requests that wait for one. So a new key works at its first use, every process refuses a
revoked key within a second, a flood of invented keys costs a few small reads and no memory, and a revoked key cannot
be told from one that never existed.
"""

import asyncio
import hashlib
import hmac
from typing import NamedTuple

from langlauf.auth.caller import Caller
from langlauf.clock import Clock, monotonic, new_word
from langlauf.domain.access import (
    ALL_SCOPES,
    CAPABILITY_ISSUER,
    DEFAULT_SCOPES,
    ID_LENGTH,
    KEY_ALPHABET,
    KEY_PREFIX,
    OPEN_ISSUER,
    SECRET_LENGTH,
    ApiKey,
    Grant,
    HashedKey,
    Scope,
    hash_key,
    is_key_id,
    key_id_of,
    key_text,
)
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant, after
from langlauf.store.admin import AccessStore

#: How old the cache may be. The contract allows five seconds.
FRESH_SECONDS = 1.0
#: Requests with an unknown key wait for the next read; reads are at least this far apart.
SHORTEST_PAUSE = 0.02
#: How often the last use of keys is written to the store.
USES_EVERY_SECONDS = 60.0


class Keyring:
    """All keys that are not revoked, at most a second old."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._keys: dict[str, HashedKey] = {}
        self._version = 0
        self._read_at = float("-inf")
        #: whether the cache was ever filled
        self.loaded = False
        self._read_lock = asyncio.Lock()
        self._uses: dict[str, Instant] = {}

    @property
    def empty(self) -> bool:
        """Whether no key was ever created."""
        return self._version == 0

    def now(self) -> Instant:
        """Return the time that decides whether a key has expired."""
        return self._clock.now()

    def find(self, key_id: str | None) -> HashedKey | None:
        """Return a key that is valid now, or None."""
        found = None if key_id is None else self._keys.get(key_id)
        return found if found is not None and found.key.live(self._clock.now()) else None

    @property
    def fresh(self) -> bool:
        """Whether the cache is recent enough."""
        return monotonic() - self._read_at < FRESH_SECONDS

    async def refresh(self) -> None:
        """Read changes where the cache is too old; concurrent callers share one read."""
        if not self.fresh:
            async with self._read_lock:
                if not self.fresh:
                    await self._read_changes()

    async def refresh_now(self) -> None:
        """Read changes up to now, for a key that may have just been created; bounded to a few reads a second."""
        came_at = monotonic()
        async with self._read_lock:
            if self._read_at < came_at:
                await asyncio.sleep(self._read_at + SHORTEST_PAUSE - monotonic())
                await self._read_changes()

    async def _read_changes(self) -> None:
        began = monotonic()
        changes = await self._store.key_changes(self._version)
        for one in changes.changed:
            if one.key.revoked_at is None:
                self._keys[one.key.key_id] = one
            else:
                self._keys.pop(one.key.key_id, None)
        self._version = changes.version
        self._read_at = began
        self.loaded = True

    def forget(self) -> None:
        """Make the next request read the store: this process has changed a key."""
        self._read_at = float("-inf")

    def used(self, key_id: str) -> None:
        """Record that a key was used."""
        self._uses[key_id] = self._clock.now()

    async def write_uses(self) -> None:
        """Write the last use of all keys in one batch; a failed write is repeated next time."""
        uses, self._uses = self._uses, {}
        if uses:
            try:
                await self._store.note_key_uses(uses)
            except BaseException:
                self._uses = uses | self._uses
                raise


_OPERATOR = "operator-"
#: Compared with where no key was found, so that a miss takes the same steps as a hit.
_NO_HASH = "0" * 64
_TO_ALL = Grant(issuer=OPEN_ISSUER, org_id=None, scopes=ALL_SCOPES)


class Authenticator:
    """Decides whether a credential is valid, from memory that is at most a second old."""

    def __init__(self, keyring: Keyring, auth_token: str | None, *, by_id: bool) -> None:
        self._keyring = keyring
        self._by_id = by_id
        self._operator_hash = _NO_HASH if auth_token is None else hash_key(auth_token.encode())
        self._operator = None if auth_token is None else _OPERATOR + _fingerprint(auth_token)

    @property
    def open(self) -> bool:
        """Whether requests need no key: none was ever created, and there is no operator token."""
        return self._operator is None and self._keyring.empty

    @property
    def without_operator(self) -> bool:
        """Whether requests need a key, and there is no operator token for what keys cannot do."""
        return self._operator is None and not self._keyring.empty

    @property
    def fresh(self) -> bool:
        """Whether the cached keys are recent enough."""
        return self._keyring.fresh

    async def refresh(self) -> None:
        """Read keys that were created or revoked. All other methods use the cache."""
        await self._keyring.refresh()

    async def refresh_if_possible(self) -> None:
        """Refresh, but fall back to the cache while the store is unavailable: for endpoints without data of an org."""
        try:
            await self.refresh()
        except StoreError:
            if not self._keyring.loaded:
                raise

    def now(self) -> Instant:
        """Return the time that decides whether a credential has expired."""
        return self._keyring.now()

    def forget(self) -> None:
        """Make the next request read the store: this process has just created or revoked a key."""
        self._keyring.forget()

    def used(self, issuer: str) -> None:
        """Record the use of a key, by itself or through a token or session made with it."""
        if is_key_id(issuer):
            self._keyring.used(issuer)

    async def by_secret(self, shown: bytes) -> Grant | None:
        """Return the grant of a key or of the operator token, or None.

        Unknown, revoked and expired keys take the same steps, so that timing does not tell them apart. A text
        that is not formatted like a key is not looked up.
        """
        key_id = key_id_of(shown.decode("ascii", "replace"))
        if key_id is not None and self._keyring.find(key_id) is None:
            await self._keyring.refresh_now()
        found = self._keyring.find(key_id)
        shown_hash = hash_key(shown)
        is_key = hmac.compare_digest(shown_hash, _NO_HASH if found is None else found.secret_hash)
        is_operator = hmac.compare_digest(shown_hash, self._operator_hash)
        if found is not None and is_key:
            self.used(found.key.key_id)
            return self.by_issuer(found.key.key_id)
        return self.by_issuer(self._operator) if is_operator and self._operator is not None else None

    def by_issuer(self, issuer: str) -> Grant | None:
        """Return the current grant of the issuer behind a credential; None once it is no longer valid."""
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
        """Whether a caller of a stream or a long poll may still be served."""
        grant = caller.grant
        if grant is None:
            return True
        await self.refresh()
        over = grant.expires_at is not None and self.now() >= grant.expires_at
        return not over and self.by_issuer(grant.issuer) is not None


def _fingerprint(token: str) -> str:
    """Distinguish one operator token from the next: sessions and tokens of the old one end with it."""
    return hashlib.sha256(b"langlauf operator " + token.encode()).hexdigest()[:16]


# -- creating, listing and revoking ------------------------------------------------------------------------------------


class CreatedKey(NamedTuple):
    """A new key, with its text, which cannot be read again."""

    key: ApiKey
    text: str


class KeyService:
    """Manages the keys of orgs."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def expiry(self, seconds: float | None) -> Instant | None:
        """Return when a key created now expires, if it lives for so many seconds."""
        return None if seconds is None else after(self._clock.now(), seconds)

    async def create(
        self,
        org_id: str,
        *,
        name: str = "",
        scopes: frozenset[Scope] = DEFAULT_SCOPES,
        expires_at: Instant | None = None,
    ) -> CreatedKey:
        """Create a key of an org. Only its hash is stored."""
        while True:
            key_id = KEY_PREFIX + new_word(KEY_ALPHABET, ID_LENGTH)
            text = key_text(key_id, new_word(KEY_ALPHABET, SECRET_LENGTH))
            key = ApiKey(
                key_id=key_id,
                org_id=org_id,
                name=name,
                scopes=scopes,
                created_at=self._clock.now(),
                expires_at=expires_at,
            )
            made = await self._store.create_key(HashedKey(key, hash_key(text.encode())))
            if made is not None:
                return CreatedKey(made, text)

    async def list(self, org_id: str | None) -> list[ApiKey]:
        """Return the keys of an org, or of all, oldest first."""
        return await self._store.keys(org_id)

    async def revoke(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        """Revoke a key; repeating it changes nothing. None where the org has no such key."""
        return await self._store.revoke_key(key_id, org_id=org_id)
