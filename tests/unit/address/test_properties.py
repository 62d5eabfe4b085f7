"""What holds for any text, and for any single typing error."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langlauf.bundled.address.data import DEFAULT_TABLE
from langlauf.bundled.address.gazetteer import SpatialIndex, distance_km, load
from langlauf.bundled.address.locate import find_candidates
from langlauf.bundled.address.parser import parse
from langlauf.bundled.address.text import edit_distance, fold, spellings
from langlauf.domain.errors import PermanentError
from tests.support.tiers import at_scale

Analyse = Callable[..., dict[str, Any]]

PIECES = ["9000", "St.", "Gallen", "Rue", "5", ",", "Paris", "IL", "(", ")", "-", "東京", "CH-", "SW1A 2AA"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@cache
def _long_names() -> list[str]:
    gazetteer = load(DEFAULT_TABLE)
    names = [fold(place.name) for place in gazetteer.places if place.population >= 1_000_000]
    return [name for name in names if name.isascii() and name.isalpha() and len(name) >= 9]


@st.composite
def _misspelt(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from(_long_names()))
    at = draw(st.integers(1, len(name) - 2))
    letter = draw(st.sampled_from(LETTERS))
    edits = {
        "leave out": name[:at] + name[at + 1 :],
        "put in": name[:at] + letter + name[at:],
        "change": name[:at] + letter + name[at + 1 :],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    }
    return name, edits[draw(st.sampled_from(sorted(edits)))]


@settings(max_examples=at_scale(200, 40), deadline=None)
@given(_misspelt())
def test_one_typing_error_in_a_long_name_is_forgiven(names: tuple[str, str]) -> None:
    """A city of a million is among the readings of its name with any one error, unless that spells another place."""
    name, misspelt = names
    gazetteer = load(DEFAULT_TABLE)
    city = gazetteer.named(name)[0]
    spelt_another = any(gazetteer.named(spelling) for spelling in spellings(misspelt))
    assert spelt_another or city in {candidate.index for candidate in find_candidates(parse(misspelt), gazetteer)}


@settings(
    max_examples=at_scale(150, 30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.text(max_size=120) | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_located_or_refused(analyse: Analyse, text: str) -> None:
    """Any text gives a place or a PermanentError, never another failure."""
    with suppress(PermanentError):
        assert 0 < analyse(text)["locate"]["match"]["confidence"] <= 1


def _plain_distance(left: str, right: str) -> int:
    table = [
        [max(row, column) if 0 in {row, column} else 0 for column in range(len(right) + 1)]
        for row in range(len(left) + 1)
    ]
    for row in range(1, len(left) + 1):
        for column in range(1, len(right) + 1):
            same = left[row - 1] == right[column - 1]
            costs = [table[row - 1][column] + 1, table[row][column - 1] + 1, table[row - 1][column - 1] + (not same)]
            if row > 1 and column > 1 and left[row - 1] == right[column - 2] and left[row - 2] == right[column - 1]:
                costs.append(table[row - 2][column - 2] + 1)
            table[row][column] = min(costs)
    return table[-1][-1]


@given(st.text("abc", max_size=8), st.text("abc", max_size=8), st.integers(1, 3))
def test_edit_distance_is_the_plain_one_up_to_its_limit(left: str, right: str, limit: int) -> None:
    """The bounded distance agrees with the full table wherever it does not give up."""
    assert edit_distance(left, right, limit) == min(_plain_distance(left, right), limit + 1)


_POINTS = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


@settings(max_examples=at_scale(60, 20), deadline=None)
@given(st.lists(_POINTS, max_size=30), _POINTS, st.floats(1, 3000))
def test_grid_finds_what_a_full_search_finds(
    points: list[tuple[float, float]], origin: tuple[float, float], radius: float
) -> None:
    """The grid leaves out no point within the radius, at the poles and across the date line too."""
    expected = sorted((distance_km(*origin, *point), index) for index, point in enumerate(points))
    assert SpatialIndex(points).within(*origin, radius) == [hit for hit in expected if hit[0] <= radius]


@given(st.text(max_size=40))
def test_folding_twice_changes_nothing(text: str) -> None:
    """A folded name is its own folded spelling, but for initials that folding has joined."""
    once = fold(text)
    assert fold(once).replace(" ", "") == fold(fold(once)).replace(" ", "")
