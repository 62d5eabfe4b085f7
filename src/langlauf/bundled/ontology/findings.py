"""What is found in an ontology: changes between two versions, and flaws of its structure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from langlauf.bundled.ontology.obo import Term, TermIndex

# -- changes -----------------------------------------------------------------------------------------------------------

#: The kinds of changes, in the order of the report.
KINDS: Final = (
    "added", "removed", "merged", "obsoleted", "revived", "renamed", "moved", "namespace_changed", "redefined",
    "synonyms_changed",
)  # fmt: skip
MOST_LISTED: Final = 300
#: Namespaces beyond so many are compared together, as one.
MOST_NAMESPACES: Final = 40
OTHERS: Final = "(other namespaces)"

Change = dict[str, Any]


class Comparison:
    """Two versions side by side. Without an earlier one there is nothing to compare, and terms are only counted."""

    def __init__(self, now: TermIndex, before: TermIndex | None) -> None:
        self._now, self._before = now, before
        self._new = now.by_id()
        self._old = {} if before is None else before.by_id()
        self._merged = {alt: term.id for term in now.terms for alt in term.alt_ids}
        self._own = _largest(now, before)

    @property
    def namespaces(self) -> list[str]:
        """The parts that are compared one after the other, in an order that every attempt finds again."""
        beyond = {self._group_now(term) for term in self._now.terms} | {self._group_old(t) for t in self._old.values()}
        return sorted(beyond - {OTHERS}) + ([OTHERS] if OTHERS in beyond else [])

    def compare(self, namespace: str) -> dict[str, Any]:
        """Return the changes of one namespace: how many of each kind, and the first of them by id."""
        new = [term for term in self._now.terms if self._group_now(term) == namespace]
        old = [term for term in self._old.values() if self._group_old(term) == namespace]
        found: dict[str, list[Change]] = {kind: [] for kind in KINDS}
        if self._before is not None:
            for term in sorted(new, key=lambda term: term.id):
                for kind, change in self._changes(term):
                    found[kind].append(change)
            for term in sorted(old, key=lambda term: term.id):
                if term.id not in self._new:
                    kind, change = self._gone(term)
                    found[kind].append(change)
        return {
            "namespace": namespace,
            "terms": len(new),
            "obsolete": sum(term.obsolete for term in new),
            "terms_before": None if self._before is None else len(old),
            "counts": {kind: len(changes) for kind, changes in found.items()},
            "changes": {kind: changes[:MOST_LISTED] for kind, changes in found.items() if changes},
        }

    def _group_now(self, term: Term) -> str:
        name = self._now.namespace_of(term)
        return name if name in self._own else OTHERS

    def _group_old(self, term: Term) -> str:
        name = self._before.namespace_of(term) if self._before is not None else OTHERS
        return name if name in self._own else OTHERS

    def _gone(self, term: Term) -> tuple[str, Change]:
        change: Change = {"id": term.id, "name": term.name}
        if into := self._merged.get(term.id):
            return "merged", change | {"into": into}
        return "removed", change

    def _changes(self, term: Term) -> Iterable[tuple[str, Change]]:
        known: Change = {"id": term.id, "name": term.name}
        before = self._old.get(term.id)
        if before is None:
            yield "added", known
            return
        if term.obsolete and not before.obsolete:
            yield "obsoleted", known | {"replaced_by": term.replaced_by}
        elif before.obsolete and not term.obsolete:
            yield "revived", known
        if term.name != before.name:
            yield "renamed", known | {"before": before.name}
        # An obsolete term has no parents by rule; losing them is no move.
        if term.parents != before.parents and not term.obsolete:
            yield "moved", known | _parents(term, before)
        was = "" if self._before is None else self._before.namespace_of(before)
        if self._now.namespace_of(term) != was:
            yield "namespace_changed", known | {"before": was}
        if term.definition != before.definition:
            yield "redefined", known
        if term.synonyms != before.synonyms:
            yield "synonyms_changed", known


def _parents(term: Term, before: Term) -> Change:
    return {
        "parents_added": sorted(set(term.parents) - set(before.parents)),
        "parents_removed": sorted(set(before.parents) - set(term.parents)),
    }


def _largest(now: TermIndex, before: TermIndex | None) -> set[str]:
    """Return the namespaces with the most terms in either version."""
    sizes: dict[str, int] = {}
    for index in (now, before):
        for term in index.terms if index is not None else ():
            name = index.namespace_of(term) if index is not None else ""
            sizes[name] = sizes.get(name, 0) + 1
    return set(sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_NAMESPACES])


# -- flaws of the structure --------------------------------------------------------------------------------------------

MOST_FLAWS: Final = 100
_MOST_OF_A_CYCLE: Final = 20

Findings = list[dict[str, Any]]


def findings(index: TermIndex) -> dict[str, Any]:
    """Return every kind of finding with its number and the first of them."""
    terms = index.by_id()
    found = {
        "cycles": [{"size": len(cycle), "terms": cycle[:_MOST_OF_A_CYCLE]} for cycle in cycles(index.terms)],
        "dangling_parents": _wrong_parents(index, lambda parent: parent not in terms),
        "obsolete_parents": _wrong_parents(index, lambda parent: parent in terms and terms[parent].obsolete),
        "unknown_replacements": [
            {"id": term.id, "name": term.name, "replaced_by": other}
            for term in index.terms
            for other in term.replaced_by
            if other not in terms
        ],
        "alternatives_in_use": [
            {"id": term.id, "name": term.name, "alt_id": other}
            for term in index.terms
            for other in term.alt_ids
            if other in terms
        ],
        "duplicates": [{"id": identifier} for identifier in index.duplicates],
        "unnamed": [{"id": term.id} for term in index.terms if not term.name],
    }
    return {kind: {"count": len(each), "listed": each[:MOST_FLAWS]} for kind, each in found.items()}


def _wrong_parents(index: TermIndex, wrong: Callable[[str], bool]) -> Findings:
    return [
        {"id": term.id, "name": term.name, "parent": parent}
        for term in index.terms
        if not term.obsolete
        for parent in term.parents
        if wrong(parent)
    ]


def cycles(terms: list[Term]) -> list[list[str]]:
    """Return the groups of terms that are, step by step, their own parents; each in order of ids."""
    parents = {term.id: term.parents for term in terms}
    groups = _ComponentSearch(parents).groups()
    return sorted(sorted(group) for group in groups if len(group) > 1 or group[0] in parents[group[0]])


class _ComponentSearch:
    """Tarjan's strongly connected components, without recursion: an ontology may be deeper than Python's stack."""

    def __init__(self, parents: dict[str, list[str]]) -> None:
        self._parents = parents
        self._order: dict[str, int] = {}
        self._lowest: dict[str, int] = {}
        self._waiting: list[str] = []
        self._open: set[str] = set()
        self._path: list[tuple[str, Iterator[str]]] = []
        self._groups: list[list[str]] = []

    def groups(self) -> list[list[str]]:
        """Return every term in exactly one group."""
        for start in self._parents:
            if start not in self._order:
                self._enter(start)
            while self._path:
                term, rest = self._path[-1]
                parent = next(rest, None)
                if parent is None:
                    self._leave(term)
                elif parent in self._parents and parent not in self._order:
                    self._enter(parent)
                elif parent in self._open:
                    self._lowest[term] = min(self._lowest[term], self._order[parent])
        return self._groups

    def _enter(self, term: str) -> None:
        self._order[term] = self._lowest[term] = len(self._order)
        self._waiting.append(term)
        self._open.add(term)
        self._path.append((term, iter(self._parents[term])))

    def _leave(self, term: str) -> None:
        self._path.pop()
        if self._path:
            child = self._path[-1][0]
            self._lowest[child] = min(self._lowest[child], self._lowest[term])
        if self._lowest[term] < self._order[term]:
            return
        group: list[str] = []
        while not group or group[-1] != term:
            group.append(self._waiting.pop())
        self._open.difference_update(group)
        self._groups.append(group)
