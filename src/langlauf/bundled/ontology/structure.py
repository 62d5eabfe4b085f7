"""What is wrong with the structure of an ontology: circles, parents that are not there, and the like."""

from typing import Any, Final

from .terms import Index, Term

MOST_LISTED: Final = 100
_MOST_OF_A_CYCLE: Final = 20

Findings = list[dict[str, Any]]


def findings(index: Index) -> dict[str, Any]:
    """Every kind of finding with its number and the first of them."""
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


def _parents(index: Index, wrong: Any) -> Findings:
    return [
        {"id": term.id, "name": term.name, "parent": parent}
        for term in index.terms
        if not term.obsolete
        for parent in term.parents
        if wrong(parent)
    ]


def cycles(terms: list[Term]) -> list[list[str]]:
    """The groups of terms that are, step by step, their own parents; each in order of ids (after Tarjan)."""
    parents = {term.id: term.parents for term in terms}
    found = [sorted(group) for group in _groups(parents) if len(group) > 1 or group[0] in parents[group[0]]]
    return sorted(found)


def _groups(parents: dict[str, list[str]]) -> list[list[str]]:
    """Strongly connected components, without recursion: ontologies are deeper than Python's stack."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    waiting: list[str] = []
    open_terms: set[str] = set()
    groups: list[list[str]] = []
    for start in parents:
        if start in order:
            continue
        order[start] = low[start] = len(order)
        waiting.append(start)
        open_terms.add(start)
        path = [(start, iter(parents[start]))]
        while path:
            term, rest = path[-1]
            step = next((parent for parent in rest if parent in parents and _is_open(parent, order, open_terms)), None)
            if step is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[term])
                if low[term] == order[term]:
                    groups.append(_closed(term, waiting, open_terms))
            elif step in order:
                low[term] = min(low[term], order[step])
            else:
                order[step] = low[step] = len(order)
                waiting.append(step)
                open_terms.add(step)
                path.append((step, iter(parents[step])))
    return groups


def _is_open(term: str, order: dict[str, int], open_terms: set[str]) -> bool:
    return term not in order or term in open_terms


def _closed(term: str, waiting: list[str], open_terms: set[str]) -> list[str]:
    group: list[str] = []
    while not group or group[-1] != term:
        group.append(waiting.pop())
        open_terms.discard(group[-1])
    return group
