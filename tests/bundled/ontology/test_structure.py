"""Circles are found wherever they are, and nothing else is taken for one."""

from hypothesis import given
from hypothesis import strategies as st

from langlauf.bundled.ontology.findings import cycles, findings
from langlauf.bundled.ontology.obo import Term, TermIndex, compact, index_from, read_index

links = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 11), max_size=3), max_size=10)


def terms_of(parents: dict[int, list[int]]) -> list[Term]:
    """Terms with these parents, some of which are not there."""
    return [Term(id=str(one), name="t", namespace=0, parents=[str(two) for two in of]) for one, of in parents.items()]


def reaches(parents: dict[int, list[int]], start: int) -> set[int]:
    """All that can be reached by one step or more."""
    found: set[int] = set()
    waiting = list(parents.get(start, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += parents.get(one, ())
    return found


@given(links)
def test_a_term_is_in_a_circle_where_it_reaches_itself(parents: dict[int, list[int]]) -> None:
    """As counted by walking from each term; two terms are in one circle where each reaches the other."""
    found = cycles(terms_of(parents))
    members = [int(term) for cycle in found for term in cycle]
    assert sorted(members) == sorted(one for one in parents if one in reaches(parents, one))
    assert len(members) == len(set(members))
    for cycle in found:
        for one in cycle:
            assert set(map(int, cycle)) <= reaches(parents, int(one))


def test_a_very_deep_ontology_is_no_problem() -> None:
    """A chain of many thousand terms, closed at its end, is one circle."""
    count = 20_000
    chain = {number: [(number + 1) % count] for number in range(count)}
    [circle] = cycles(terms_of(chain))
    assert len(circle) == count


def test_each_kind_of_finding() -> None:
    """One of each, and no other."""
    text = """\
ontology: broken

[Term]
id: B:1
name: a
is_a: B:2

[Term]
id: B:2
name: b
is_a: B:1

[Term]
id: B:3
name: c
is_a: B:4
is_a: X:9

[Term]
id: B:4
name: gone
is_obsolete: true
replaced_by: X:8

[Term]
id: B:5
alt_id: B:1

[Term]
id: B:5
is_a: B:3
"""
    index = index_from(read_index(text, "text"))
    assert index is not None
    assert {kind: each["listed"] for kind, each in findings(index).items()} == {
        "cycles": [{"size": 2, "terms": ["B:1", "B:2"]}],
        "dangling_parents": [{"id": "B:3", "name": "c", "parent": "X:9"}],
        "obsolete_parents": [{"id": "B:3", "name": "c", "parent": "B:4"}],
        "unknown_replacements": [{"id": "B:4", "name": "gone", "replaced_by": "X:8"}],
        "alternatives_in_use": [{"id": "B:5", "name": "", "alt_id": "B:1"}],
        "duplicates": [{"id": "B:5"}],
        "unnamed": [{"id": "B:5"}],
    }


words = st.text(st.characters(categories=["L", "N"]), max_size=5)
some = st.lists(words, max_size=3)


@given(
    st.lists(
        st.builds(
            Term, id=words, name=words, namespace=st.just(0), parents=some, definition=words, synonyms=words,
            obsolete=st.booleans(), replaced_by=some, alt_ids=some,
        )
    )
)  # fmt: skip
def test_what_is_kept_comes_back(terms: list[Term]) -> None:
    """Nothing is lost by leaving out what is empty."""
    index = TermIndex(namespaces=["n"], terms=terms)
    assert index_from(compact(index)) == index


def test_an_index_that_cannot_be_read_is_none() -> None:
    """Of another form, or with a namespace that is not there."""
    good = compact(TermIndex(namespaces=["n"], terms=[Term(id="a", name="", namespace=0)]))
    assert index_from(good) is not None
    assert index_from(good | {"format": 2}) is None
    assert index_from(good | {"namespaces": []}) is None
    assert index_from(None) is None
