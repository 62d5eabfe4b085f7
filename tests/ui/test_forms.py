"""Forms from schemas: an entry for every kind of parameter, and what is filled in becomes what the API would get."""

import datetime as dt
import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from langlauf.ui.form_fields import FieldChoice, FieldKind, FormField, field_texts, form_fields
from langlauf.ui.form_validation import FormValues, read_form_values
from langlauf.ui.language import load_language

ENGLISH = load_language("en")


class Colour(enum.Enum):
    """An enum of strings."""

    RED = "red"
    BLUE = "blue"


class Place(msgspec.Struct):
    """A nested object."""

    x: int


class Everything(msgspec.Struct, kw_only=True):
    """One field of every kind."""

    text: Annotated[str, msgspec.Meta(min_length=2, max_length=20, description="Words.", examples=["ab", "cd"])]
    long: Annotated[str, msgspec.Meta(max_length=5_000)] = ""
    noted: Annotated[str, msgspec.Meta(extra_json_schema={"format": "multiline"})] = ""
    whole: Annotated[int, msgspec.Meta(ge=1, le=5)] = 3
    number: Annotated[float, msgspec.Meta(gt=0, multiple_of=0.5)] = 1.0
    flag: bool = True
    maybe: bool | None = None
    colour: Colour = Colour.BLUE
    mode: Literal["a", "b", 1]
    mode_or_none: Literal["a", "b"] | None = None
    text_or_none: str | None = None
    whole_or_none: int | None = 4
    words: list[str] = []
    codes: Annotated[list[int], msgspec.Meta(max_length=2)] = []
    colours: list[Colour] = []
    place: Place
    places: list[Place] = []
    weights: dict[str, float] = {}
    either: int | str = 1
    anything: Any = None
    pair: tuple[int, str] = (1, "a")
    day: dt.date | None = None
    shaped: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$")] = "AB"
    api_token: str = ""


def entries() -> dict[str, FormField]:
    """The entries of the form, by name."""
    [_], components = msgspec.json.schema_components([Everything], ref_template="#/components/schemas/{name}")
    return {entry.name: entry for entry in form_fields(components["Everything"], components)}


def filled(**texts: str) -> FormValues:
    """A form with these texts; what must be there and is not given is."""
    blank = {entry.html_name: entry.initial for entry in entries().values()}
    needed = {"text": "ab", "mode": '"a"', "place": '{"x": 1}'}
    fields = blank | {f"in.{name}": text for name, text in {**needed, **texts}.items()}
    return read_form_values(list(entries().values()), Everything, fields, 64)


def error(**texts: str) -> str:
    """What is wrong with the one entry that is."""
    [found] = filled(**texts).errors.values()
    return str(found.message(ENGLISH))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (FieldKind.TEXT, ["text", "text_or_none", "shaped", "api_token"]),
        (FieldKind.LONG, ["long", "noted"]),
        (FieldKind.WHOLE, ["whole", "whole_or_none"]),
        (FieldKind.NUMBER, ["number"]),
        (FieldKind.FLAG, ["flag"]),
        (FieldKind.CHOICE, ["maybe", "colour", "mode", "mode_or_none"]),
        (FieldKind.LINES, ["words", "codes", "colours"]),
        (FieldKind.ROWS, ["places"]),
        (FieldKind.JSON, ["place", "weights", "either", "anything", "pair"]),
        (FieldKind.DATE, ["day"]),
    ],
)
def test_each_schema_has_its_kind_of_entry(kind: FieldKind, names: list[str]) -> None:
    """As narrow as it can be; JSON for what has no form of its own."""
    assert [entry.name for entry in entries().values() if entry.kind is kind] == names


def test_an_entry_says_what_the_schema_says() -> None:
    """Description, examples, default, limits, and whether it must be there."""
    found = entries()
    text = found["text"]
    assert (text.required, text.description, text.examples) == (True, "Words.", ("ab", "cd"))
    assert text.limits == {"minlength": "2", "maxlength": "20"}
    assert found["whole"].limits == {"min": "1", "max": "5", "step": "1"}
    assert found["number"].limits == {"step": "0.5"}
    assert found["shaped"].limits == {"pattern": "[A-Z]{2}"}
    assert (found["whole"].initial, found["flag"].initial, found["colour"].initial) == ("3", "on", '"blue"')
    assert found["colour"].choices == (FieldChoice('"blue"', "blue"), FieldChoice('"red"', "red"))
    assert found["pair"].initial == '[1,"a"]'
    assert [name for name, entry in found.items() if entry.secret] == ["api_token"]


@pytest.mark.parametrize(
    ("pattern", "attribute"),
    [("^a+$", "a+"), ("a|b", ".*(?:a|b).*"), (r"^\d{4}", r"(?:\d{4}).*"), (r"^[\w-]+$", None), ("(?i)x", None)],
)
def test_a_pattern_is_given_to_browsers_that_read_it_alike(pattern: str, attribute: str | None) -> None:
    """Over the whole text, and not at all where the two would differ."""
    kind = msgspec.defstruct("Kind", [("text", Annotated[str, msgspec.Meta(pattern=pattern)])])
    [entry] = form_fields(msgspec.json.schema_components([kind])[1]["Kind"], {})
    assert entry.limits.get("pattern") == attribute


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", " ab ", " ab "),
        ("long", "one\r\ntwo", "one\ntwo"),
        ("whole", " 4 ", 4),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("flag", "on", True),
        ("flag", "", False),
        ("maybe", "false", False),
        ("maybe", "", None),
        ("colour", '"red"', "red"),
        ("mode", "1", 1),
        ("mode_or_none", "", None),
        ("text_or_none", "", None),
        ("whole_or_none", "", None),
        ("words", "one\r\n\r\n two \r\n", ["one", "two"]),
        ("codes", "1\n2", [1, 2]),
        ("colours", "red", ["red"]),
        ("place", '{"x": 7}', {"x": 7}),
        ("weights", '{"a": 0.5}', {"a": 0.5}),
        ("either", '"1"', "1"),
        ("anything", "[1]", [1]),
        ("day", "2026-03-12", "2026-03-12"),
    ],
)
def test_what_is_filled_in_becomes_a_value(name: str, text: str, value: Any) -> None:
    """As the API would get it, and as the analysis takes it."""
    made = filled(**{name: text})
    assert made.errors == {}
    assert made.values[name] == value
    msgspec.convert(made.values, Everything)


@pytest.mark.parametrize("name", ["whole", "number", "words", "weights", "either", "shaped"])
def test_what_is_left_empty_is_left_out(name: str) -> None:
    """Then the analysis takes its default."""
    assert name not in filled(**{name: ""}).values


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("text", "", "This field is required."),
        ("text", "a", "Too short: at least 2 characters are needed."),
        ("text", "a" * 21, "Too long: at most 20 characters are allowed."),
        ("mode", "", "This field is required."),
        ("mode", '"c"', "Choose one of these: 1, a, b."),
        ("whole", "1.5", "Enter a whole number, such as 12."),
        ("whole", "0", "The value must be 1 or more."),
        ("whole", "6", "The value must be 5 or less."),
        ("number", "much", "Enter a number, such as 1.5."),
        ("number", "0", "The value must be more than 0."),
        ("number", "0.7", "The value must be a multiple of 0.5."),
        ("codes", "1\n\nx", "Value 2: Enter a whole number, such as 12."),
        ("codes", "1\n2\n3", "Too many values: at most 2 are allowed."),
        ("colours", "red\ngreen", "Value 2: Choose one of these: blue, red."),
        ("shaped", "x", "The value must match the pattern ^[A-Z]{2}$."),
        ("day", "yesterday", "Enter a date, such as 2026-03-31."),
        ("place", "{", "This is not valid JSON (line 1, column 2)."),
        ("place", '{"x": 1, "x": 2}', "The name &#39;x&#39; is given twice in one object; send it once."),
        ("place", '{"y": 1}', "In x: This field is required."),
        ("places", '[{"x": "a"}]', "In [0].x: Enter a whole number, such as 12."),
    ],
)
def test_each_error_is_told_in_words(name: str, text: str, sentence: str) -> None:
    """In words of the form, never of a library."""
    assert error(**{name: text}) == sentence


def test_all_errors_are_told_at_once() -> None:
    """Nobody corrects one entry only to hear about the next."""
    made = filled(text="", whole="x", place="{")
    assert sorted(made.errors) == ["in.place", "in.text", "in.whole"]
    assert made.texts["in.whole"] == "x"


def test_records_are_filled_in_by_rows() -> None:
    """Empty rows do not count, each error stands at its field, and earlier values come back as rows."""
    made = filled(**{"places.0.x": "4", "places.1.x": "", "places.2.x": "5"})
    assert made.values["places"] == [{"x": 4}, {"x": 5}]
    assert "places" not in filled(**{"places.0.x": " "}).values
    wrong = filled(**{"places.0.x": "", "places.1.x": "much"})
    assert list(wrong.errors) == ["in.places.1.x"]
    field = entries()["places"]
    assert field_texts(field, [{"x": 4}, {"x": 5}]) == {"in.places.0.x": "4", "in.places.1.x": "5"}
    assert len(field.shown_rows({})) == 2
    assert field_texts(field, [{"x": 1}] * 51) == {"in.places": msgspec.json.encode([{"x": 1}] * 51).decode()}
    assert filled(places='[{"x": 9}]').values["places"] == [{"x": 9}]
