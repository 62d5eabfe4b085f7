"""What is wrong with the structure of an ontology: circles, parents that are not there, and the like."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from langlauf.bundled.ontology.obo import Term, TermIndex

MOST_LISTED: Final = 100
_MOST_OF_A_CYCLE: Final = 20

Findings = list[dict[str, Any]]


def findings(index: TermIndex) -> dict[str, Any]:
    """Return every kind of finding with its number and the first of them."""
    terms = index.by_id()
    found = {
        "cycles": [{"size": len(cycle), "terms": cycle[:_MOST_OF_A_CYCLE]} for cycle in cycles(index.terms)],
        "dangling_parents": _parents(index, lambda parent: parent not in terms),
        "obsolete_parents": _parents(index, lambda parent: parent in terms and terms[parent].obsolete),
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
    return {kind: {"count": len(each), "listed": each[:MOST_LISTED]} for kind, each in found.items()}


def _parents(index: TermIndex, wrong: Callable[[str], bool]) -> Findings:
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
