"""What a store promises about who may call. It is apart from a job's life: nothing here is asked for by a worker."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from langlauf.domain.instant import Instant
from langlauf.domain.keys import HashedKey, Key, KeyChanges


class Owner(NamedTuple):
    """Whose a record is, and of which job."""

    org_id: str
    job_id: str


class SessionEnd(NamedTuple):
    """A session that was ended before its time. Numbers rise with every end."""

    session_id: str
    expires_at: Instant
    number: int


class AccessStore(Protocol):
    """Keys, ends of sessions, and what signatures are made with. Each verb is one atomic change."""

    async def create_key(self, new: HashedKey) -> Key | None:
        """Keeps a key; None where its id is taken. It is made at the store's time."""

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> Key | None:
        """Ends a key, of this org where one is named. Idempotent; None where there is no such key."""

    async def keys(self, org_id: str | None) -> list[Key]:
        """The keys of an org, or of all, revoked and expired ones too, oldest first."""

    async def key_changes(self, after: int) -> KeyChanges:
        """What was made or revoked past a version."""

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        """Remembers when keys were used last."""

    async def signing_secret(self, purpose: str) -> bytes:
        """What signatures are made with: made at its first use, the same in every process ever after."""

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        """Remembers that a session was ended, until it would have ended by itself. Repeating it changes nothing."""

    async def session_ends(self, after: int) -> list[SessionEnd]:
        """The ends past a number, in their order."""

    async def find(self, kind: Literal["job", "result"], record_id: str) -> Owner | None:
        """The owner of a job or a result, over all orgs: for callers who need no org."""
