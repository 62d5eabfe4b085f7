"""What a caller may do, and by whose word."""

from enum import StrEnum

import msgspec

from langlauf.domain.instant import Instant


class Scope(StrEnum):
    """One kind of thing to do. Every operation of the API needs one of them, or is open to everybody."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    #: to manage the org itself
    ADMIN = "admin"
    #: to look over all orgs: the operator's alone, never a key's
    OPERATE = "operate"


#: What an operator may do, and everybody where nobody is asked for a key.
ALL_SCOPES = frozenset(Scope)
#: What a key can be given.
GRANTABLE_SCOPES = ALL_SCOPES - {Scope.OPERATE}
#: What a key has unless something else is asked for.
DEFAULT_SCOPES = frozenset({Scope.SUBMIT, Scope.READ, Scope.CANCEL})
#: Who vouches for callers where nobody is asked for a key.
OPEN_ISSUER = "open"
#: Who vouches for a caller who has an id, where an id is enough.
CAPABILITY_ISSUER = "anybody"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a credential stands for, once it was found to be good."""

    #: who vouches: the id of a key, the operator's token, or nobody in an open store
    issuer: str
    #: None: any org the caller names
    org_id: str | None
    scopes: frozenset[Scope]
    expires_at: Instant | None = None
    #: where it is about one job alone
    job_id: str | None = None
    #: where a person signed in with it
    session_id: str | None = None
    #: a good credential of the same org that was shown although an id is enough: its requests count for that
    shown: "Grant | None" = None

    @property
    def key_id(self) -> str | None:
        """The key behind it, where there is one."""
        return self.issuer if self.issuer.startswith("llk_") else None

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Whom it counts for within its org, from the widest down.

        A key counts for its org alone, as the operator's token does. What is handed out with one has a part: a session,
        all tokens together, and of them those for one job; so have all who hold no more than an id.
        """
        if self.shown is not None:
            return self.shown.counted_as
        if self.session_id is not None:
            return (f"session {self.session_id}",)
        if self.job_id is None:
            return ()
        all_of_them = (
            CAPABILITY_ISSUER if self.issuer == CAPABILITY_ISSUER else f"tokens of {self.key_id or self.issuer}"
        )
        return (all_of_them, f"job {self.job_id}")

    @property
    def operator(self) -> bool:
        """Whether it is the operator's token, or a session begun with it; no key is, nor a caller of an open store."""
        return Scope.OPERATE in self.scopes and self.issuer not in (OPEN_ISSUER, CAPABILITY_ISSUER)

    @property
    def guessable(self) -> bool:
        """Whether somebody thought out what was shown: the operator's token. All else is drawn by chance, or signed."""
        drawn = (self.key_id, self.job_id, self.session_id)
        return self.issuer not in (OPEN_ISSUER, CAPABILITY_ISSUER) and not any(drawn)
