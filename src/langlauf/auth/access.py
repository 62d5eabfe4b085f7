"""Who is calling, by what they show: a key, the operator's token, a token for one job, or the session of a person."""

import hashlib
import hmac

from langlauf.auth.caller import Caller
from langlauf.auth.keyring import Keyring
from langlauf.domain.access import ANYBODY, EVERYTHING, OPEN, Grant, Scope
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant
from langlauf.domain.keys import hash_of, is_key_id, key_id_of

_OPERATOR = "operator-"
#: Compared with where there is nothing to compare with, so that a miss takes the same steps as a hit.
_NO_HASH = "0" * 64
_TO_ALL = Grant(issuer=OPEN, org_id=None, scopes=EVERYTHING)


class Access:
    """Decides whether what a caller shows is good. Everything it needs is in memory, or a second old at the most."""

    def __init__(self, keyring: Keyring, auth_token: str | None, *, by_id: bool) -> None:
        self._keyring = keyring
        self._by_id = by_id
        self._operator_hash = _NO_HASH if auth_token is None else hash_of(auth_token.encode())
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
        shown_hash = hash_of(shown)
        is_key = hmac.compare_digest(shown_hash, _NO_HASH if found is None else found.secret_hash)
        is_operator = hmac.compare_digest(shown_hash, self._operator_hash)
        if found is not None and is_key:
            self.used(found.key.key_id)
            return self.by_issuer(found.key.key_id)
        return self.by_issuer(self._operator) if is_operator and self._operator is not None else None

    def by_issuer(self, issuer: str) -> Grant | None:
        """What somebody who vouched for a caller may do now; None once they may not any more."""
        if issuer == OPEN:
            return _TO_ALL if self.open else None
        if issuer == ANYBODY:
            return Grant(issuer=ANYBODY, org_id=None, scopes=frozenset({Scope.READ})) if self._by_id else None
        if issuer == self._operator:
            return Grant(issuer=issuer, org_id=None, scopes=EVERYTHING)
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
