"""Creating, listing and revoking keys, for commands and for the API."""

from typing import NamedTuple

from langlauf.clock import Clock, new_word
from langlauf.domain.access import (
    DEFAULT_SCOPES,
    ID_LENGTH,
    KEY_ALPHABET,
    KEY_PREFIX,
    SECRET_LENGTH,
    ApiKey,
    HashedKey,
    Scope,
    hash_key,
    key_text,
)
from langlauf.domain.instant import Instant, after
from langlauf.store.admin_protocol import AccessStore


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
