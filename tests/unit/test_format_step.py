"""Steps as people read them: the item where `{}` stands, no secrets, and no text that breaks a job."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from langlauf.analysis.chunks import clean_step, format_step, with_progress


class Mute:
    """An item that cannot be written."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("Reading {}", "Reading 7"),
        ("Reading {:03d}", "Reading 007"),
        ("{x} {}", "{x} 7"),
        ("{", "{"),
        ("} {}", "} 7"),
        ("{} of {}", "7 of 7"),
        ("{0.missing}", "{0.missing}"),
        ('{"a": {}}', '{"a": 7}'),
        ("", ""),
        (None, None),
    ],
)
def test_the_item_stands_where_the_braces_are_and_other_braces_stay(step: str | None, shown: str | None) -> None:
    """A step is a text for people: one that cannot be filled in is shown as it is."""
    assert format_step(step, 7) == shown
    assert [report for _, report in with_progress([7], step)] == [(0, shown)]


@dataclass
class Parcel:
    """A record with a name."""

    number: int
    name: str
    api_key: str = "made-up"


@dataclass
class Pair:
    """A record without a name."""

    first: int
    token: str
    second: float
    rest: list[int]


@dataclass
class Own:
    """A record with a text of its own."""

    name: str

    def __str__(self) -> str:
        return f"<{self.name}>"


class Spot(NamedTuple):
    """A tuple with names."""

    x: int
    title: str


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (Parcel(7, "4-17"), "Reading 4-17"),
        (Pair(1, "made-up", 2.5, [1]), "Reading 1, 2.5"),
        (Own("a"), "Reading <a>"),
        (Spot(1, "north"), "Reading north"),
        ({"id": 12, "rest": []}, "Reading 12"),
        ({"password": "made-up"}, "Reading dict"),
        ((1, 2), "Reading (1, 2)"),
    ],
)
def test_a_record_is_shown_by_its_name_or_its_first_values(item: object, shown: str) -> None:
    """A person reads "4-17", not a representation; the value of a secret field is not part of it."""
    assert format_step("Reading {}", item) == shown


def test_a_part_of_a_record_can_be_named() -> None:
    """As in any format."""
    assert format_step("Reading {0.number}", Parcel(7, "4-17")) == "Reading 7"


def test_an_item_that_cannot_be_written_leaves_the_step_as_it_is() -> None:
    """What fails while a step is worded fails nothing else."""
    assert format_step("Reading {}", Mute()) == "Reading {}"


def test_a_step_holds_no_secret() -> None:
    """It is stored, sent to every stream and shown on pages."""
    assert (
        clean_step(format_step("Logging in at {}", "redis://:made-up@cache"))
        == "Logging in at redis://:[redacted]@cache"
    )
    assert clean_step("x " * 95 + "password='a b c d'") == "x " * 95 + "password=…"
