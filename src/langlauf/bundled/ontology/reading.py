"""An OBO text becomes an index of its terms, or an error that names the line."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from langlauf.bundled.dependency import needed
from langlauf.domain.errors import PermanentError

from .terms import MOST_TERMS, Index, Term, compact, digest

_LONGEST_SHOWN: Final = 80
#: Comments before the header, which the parser does not expect there; their lines stay, so that numbers stay true.
_LEADING_COMMENTS: Final = re.compile(r"\A(?:[ \t]*(?:![^\n]*)?\n)+")
_UNNAMED: Final = "unnamed"


def read_index(text: str, parameter: str) -> dict[str, Any]:
    """The index of an OBO text in its compact form; `parameter` is how the text is called in errors."""
    document = _parsed(text, parameter)
    header = {clause.raw_tag(): clause.raw_value() for clause in document.header}
    frames = [(str(frame.id), list(frame)) for frame in document if type(frame).__name__ == "TermFrame"]
    if not frames:
        raise _bad(f"`{parameter}` holds no [Term].")
    if len(frames) > MOST_TERMS:
        raise _bad(f"`{parameter}` has {len(frames):,} terms; at most {MOST_TERMS:,} are compared.")
    name = header.get("ontology") or _common_prefix(identifier for identifier, _ in frames)
    builder = _Builder(header.get("default-namespace") or name)
    for identifier, clauses in frames:
        builder.add(identifier, clauses)
    return compact(builder.index(name, header.get("data-version")))


def _parsed(text: str, parameter: str) -> Any:
    fastobo = needed("ontology", "fastobo", "fastobo")
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
    """What most ids begin with, for a document that does not say its name."""
    prefixes = Counter(identifier.partition(":")[0] for identifier in identifiers if ":" in identifier)
    return prefixes.most_common(1)[0][0].casefold() if prefixes else _UNNAMED


class _Builder:
    """Collects terms. Frames of the same id are one term, as the format has it."""

    def __init__(self, default_namespace: str) -> None:
        self._default = default_namespace
        self._clauses: dict[str, list[Any]] = {}
        self._duplicates: dict[str, None] = {}

    def add(self, identifier: str, clauses: list[Any]) -> None:
        """Takes one frame."""
        if identifier in self._clauses:
            self._duplicates[identifier] = None
        self._clauses.setdefault(identifier, []).extend(clauses)

    def index(self, name: str, version: str | None) -> Index:
        """What was collected."""
        namespaces: dict[str, int] = {}
        terms = [self._term(identifier, clauses, namespaces) for identifier, clauses in self._clauses.items()]
        return Index(
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
