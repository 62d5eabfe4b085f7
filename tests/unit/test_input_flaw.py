"""Why an input does not fit: by its schema, in words of the request."""

import datetime as dt
from typing import Annotated, Any, Literal

import msgspec
import pytest

from langlauf.analysis.schema import _SENTENCES, FlawCode, InvalidInput, read_input


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """A nested object."""

    x: int


class Checked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One field per kind of flaw."""

    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    name: Annotated[str, msgspec.Meta(min_length=2, max_length=3, pattern="^[a-z]+$")] = "ab"
    mode: Literal["a", "b"] = "a"
    flag: bool = False
    day: dt.date | None = None
    at: dt.datetime | None = None
    places: Annotated[list[Place], msgspec.Meta(max_length=2)] = []
    either: int | list[int] = 1
    until: int = 9

    def __post_init__(self) -> None:
        """A rule of the author."""
        if self.until < self.count:
            raise ValueError("until must not be before count.")


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"count": "3"}, "count", "count must be a whole number."),
        ({"count": True}, "count", "count must be a whole number."),
        ({"count": 0}, "count", "count must be 1 or more."),
        ({"cuont": 3}, "cuont", "There is no parameter cuont; did you mean count?"),
        ({"ratio": 1}, "ratio", "ratio must be less than 1."),
        ({"ratio": "much"}, "ratio", "ratio must be a number."),
        ({"name": "a"}, "name", "name must have at least 2 characters."),
        ({"name": "abcd"}, "name", "name must have at most 3 characters."),
        ({"name": "AB"}, "name", "name must match the pattern ^[a-z]+$."),
        ({"name": 7}, "name", "name must be a text."),
        ({"mode": "c"}, "mode", "mode must be one of a, b."),
        ({"flag": "yes"}, "flag", "flag must be true or false."),
        ({"day": "soon"}, "day", "day must be a date, such as 2026-03-31."),
        ({"at": "soon"}, "at", "at must be a date and time, such as 2026-03-31T14:00:00Z."),
        ({"places": 1}, "places", "places must be a list."),
        ({"places": [{"x": 1}, {}]}, "places[1].x", "places[1].x is required."),
        ({"places": [{"x": 1, "y": 2}]}, "places[0].y", "There is no parameter places[0].y; known are x."),
        ({"places": [1]}, "places[0]", "places[0] must be an object."),
        ({"places": [{"x": 1}] * 3}, "places", "places must have at most 2 values."),
        ({"either": ["a"]}, "either[0]", "either[0] must be a whole number."),
        ({"count": 10}, "", "the input: until must not be before count."),
    ],
)
def test_each_flaw_has_its_sentence(values: dict[str, Any], field: str, message: str) -> None:
    """The field is named as the request has it, and no word is one of a library."""
    with pytest.raises(InvalidInput) as caught:
        read_input(Checked, values)
    assert (caught.value.field, caught.value.message) == (field, message)
    assert caught.value.flaw is not None


def test_every_code_has_a_sentence() -> None:
    """Besides the one for unknown names, which has two."""
    assert set(_SENTENCES) == set(FlawCode) - {FlawCode.UNKNOWN}
