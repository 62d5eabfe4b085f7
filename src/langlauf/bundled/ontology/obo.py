"""The terms of an ontology in few bytes: what two versions are compared by, and what a result keeps for the next."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from langlauf.bundled.dependency import require_package
from langlauf.domain.errors import PermanentError

#: Characters; what a server takes of it is up to its limit for requests.
LONGEST_TEXT: Final = 100_000_000
MOST_TERMS: Final = 200_000
_FORMAT: Final = 1
_DIGEST_BYTES: Final = 6


class Term(msgspec.Struct, frozen=True, array_like=True):
    """One term. Definition and synonyms are kept as digests, which show that they changed, not how."""

    id: str
    name: str
    namespace: int
    parents: list[str] = []
    definition: str = ""
    synonyms: str = ""
    obsolete: bool = False
    replaced_by: list[str] = []
    alt_ids: list[str] = []


class TermIndex(msgspec.Struct, frozen=True, kw_only=True):
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
        """Return the terms by their id."""
        return {term.id: term for term in self.terms}

    def namespace_of(self, term: Term) -> str:
        """Return the name of a term's namespace."""
        return self.namespaces[term.namespace]


def compact(index: TermIndex) -> dict[str, Any]:
    """Return the index as JSON keeps it: a list per term, without what is empty at its end."""
    plain: dict[str, Any] = msgspec.to_builtins(index)
    plain["terms"] = [_trimmed(row) for row in plain["terms"]]
    return plain


def _trimmed(row: list[Any]) -> list[Any]:
    while not row[-1] and len(row) > 3:  # noqa: PLR2004 - id, name and namespace are always there
        row.pop()
    return row


def index_from(stored: Any) -> TermIndex | None:
    """Return the index a result kept; None where it has none, or one of another form."""
    try:
        index = msgspec.convert(stored, TermIndex)
    except msgspec.ValidationError:
        return None
    sound = index.format == _FORMAT and all(0 <= term.namespace < len(index.namespaces) for term in index.terms)
    return index if sound else None


def digest(texts: Iterable[str]) -> str:
    """Return a short mark of some texts, the same in any order; empty for none."""
    known = sorted(texts)
    if not known:
        return ""
    return hashlib.blake2b("\x00".join(known).encode(), digest_size=_DIGEST_BYTES).hexdigest()


_LONGEST_SHOWN: Final = 80
#: Comments before the header, which the parser does not expect there; their lines stay, so that numbers stay true.
_LEADING_COMMENTS: Final = re.compile(r"\A(?:[ \t]*(?:![^\n]*)?\n)+")
_UNNAMED: Final = "unnamed"


def read_index(text: str, parameter: str) -> dict[str, Any]:
    """Return the index of an OBO text in its compact form; `parameter` is how the text is called in errors."""
    document = _parsed(text, parameter)
    header = {clause.raw_tag(): clause.raw_value() for clause in document.header}
    frames = [(str(frame.id), list(frame)) for frame in document if type(frame).__name__ == "TermFrame"]
    if not frames:
        raise _bad(f"`{parameter}` holds no [Term].")
    if len(frames) > MOST_TERMS:
        raise _bad(f"`{parameter}` has {len(frames):,} terms; at most {MOST_TERMS:,} are compared.")
    name = header.get("ontology") or _common_prefix(identifier for identifier, _ in frames)
    builder = _IndexBuilder(header.get("default-namespace") or name)
    for identifier, clauses in frames:
        builder.add(identifier, clauses)
    return compact(builder.index(name, header.get("data-version")))


def _parsed(text: str, parameter: str) -> Any:
    fastobo = require_package("ontology", "fastobo", "fastobo")
    known = text.removeprefix("\ufeff").replace("\r\n", "\n") + "\n"
    known = _LEADING_COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), known)
    try:
        # One thread: the lines of errors are the same each time, and the machine has other jobs.
        return fastobo.loads(known, threads=1)
    except SyntaxError as error:
        line = error.lineno or 1
        lines = known.split("\n")
        shown = lines[line - 1][:_LONGEST_SHOWN] if line <= len(lines) else ""
        raise _bad(f'Line {line} of `{parameter}` is no OBO: "{shown}" ({error.msg}).', line=line) from None


def _bad(message: str, *, line: int | None = None) -> PermanentError:
    return PermanentError(message, code="bad_ontology", meta={} if line is None else {"line": line})


def _common_prefix(identifiers: Iterable[str]) -> str:
    """Return what most ids begin with, for a document that does not say its name."""
    prefixes = Counter(identifier.partition(":")[0] for identifier in identifiers if ":" in identifier)
    return prefixes.most_common(1)[0][0].casefold() if prefixes else _UNNAMED


class _IndexBuilder:
    """Collects terms. Frames of the same id are one term, as the format has it."""

    def __init__(self, default_namespace: str) -> None:
        self._default = default_namespace
        self._clauses: dict[str, list[Any]] = {}
        self._duplicates: dict[str, None] = {}

    def add(self, identifier: str, clauses: list[Any]) -> None:
        """Add one frame."""
        if identifier in self._clauses:
            self._duplicates[identifier] = None
        self._clauses.setdefault(identifier, []).extend(clauses)

    def index(self, name: str, version: str | None) -> TermIndex:
        """Return what was collected."""
        namespaces: dict[str, int] = {}
        terms = [self._term(identifier, clauses, namespaces) for identifier, clauses in self._clauses.items()]
        return TermIndex(
            ontology=name,
            version=version,
            read_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            namespaces=list(namespaces),
            terms=terms,
            duplicates=list(self._duplicates),
        )

    def _term(self, identifier: str, clauses: list[Any], namespaces: dict[str, int]) -> Term:
        values: dict[str, list[str]] = {}
        for clause in clauses:
            values.setdefault(clause.raw_tag(), []).append(clause.raw_value())
        namespace = values.get("namespace", [self._default])[0]
        return Term(
            id=identifier,
            name=values.get("name", [""])[0],
            namespace=namespaces.setdefault(namespace, len(namespaces)),
            parents=sorted(set(values.get("is_a", []))),
            definition=digest(values.get("def", [])),
            synonyms=digest(values.get("synonym", [])),
            obsolete="true" in values.get("is_obsolete", []),
            replaced_by=values.get("replaced_by", []),
            alt_ids=sorted(set(values.get("alt_id", []))),
        )
