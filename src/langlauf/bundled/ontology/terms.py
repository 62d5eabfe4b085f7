"""The terms of an ontology in few bytes: what two versions are compared by, and what a result keeps for the next."""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

#: Characters; what a server takes of it is up to its limit for requests.
LONGEST_TEXT: Final = 100_000_000
MOST_TERMS: Final = 200_000
_FORMAT: Final = 1
_DIGEST_BYTES: Final = 6


class Term(msgspec.Struct, frozen=True, array_like=True):
    """One term. Of definition and synonyms only a digest is kept, which tells that they changed and not how."""

    id: str
    name: str
    namespace: int
    parents: list[str] = []
    definition: str = ""
    synonyms: str = ""
    obsolete: bool = False
    replaced_by: list[str] = []
    alt_ids: list[str] = []


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of one version, by id. `namespaces` has the names that terms refer to by position."""

    format: int = _FORMAT
    ontology: str = ""
    version: str | None = None
    #: when it was read, in UTC
    read_at: str = ""
    namespaces: list[str]
    terms: list[Term]
    #: terms that had more than one frame
    duplicates: list[str] = []

    def by_id(self) -> dict[str, Term]:
        """The terms by their id."""
        return {term.id: term for term in self.terms}

    def namespace_of(self, term: Term) -> str:
        """The name of a term's namespace."""
        return self.namespaces[term.namespace]


def compact(index: Index) -> dict[str, Any]:
    """The index as JSON keeps it: a list per term, without what is empty at its end."""
    plain: dict[str, Any] = msgspec.to_builtins(index)
    plain["terms"] = [_trimmed(row) for row in plain["terms"]]
    return plain


def _trimmed(row: list[Any]) -> list[Any]:
    while not row[-1] and len(row) > 3:  # noqa: PLR2004 - id, name and namespace are always there
        row.pop()
    return row


def index_from(stored: Any) -> Index | None:
    """The index a result kept; None where it has none, or one of another form."""
    try:
        index = msgspec.convert(stored, Index)
    except msgspec.ValidationError:
        return None
    sound = index.format == _FORMAT and all(0 <= term.namespace < len(index.namespaces) for term in index.terms)
    return index if sound else None


def digest(texts: Iterable[str]) -> str:
    """A short mark of some texts, the same in any order; empty for none."""
    known = sorted(texts)
    if not known:
        return ""
    return hashlib.blake2b("\x00".join(known).encode(), digest_size=_DIGEST_BYTES).hexdigest()
