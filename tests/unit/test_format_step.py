"""Steps as people read them: the item where `{}` stands, no secrets, and no text that breaks a job."""

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
