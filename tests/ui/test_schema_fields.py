"""JSON schema made readable: types, defaults, and examples that fit."""

from typing import Annotated, Literal

import msgspec

from langlauf.api.openapi.components import example_of, required_example
from langlauf.ui.pages.reference import TypePart, schema_fields, type_notation

_REF = "#/components/schemas/{name}"


class Place(msgspec.Struct):
    """A type that can hold itself."""

    name: str
    inside: "Place | None"
    parts: list["Place"]
    level: Annotated[int, msgspec.Meta(ge=3)]
    kind: Literal["city", "town"]
    note: str | None = None


def _components(kind: type[msgspec.Struct]) -> dict[str, dict[str, object]]:
    _, components = msgspec.json.schema_components([kind], ref_template=_REF)
    return components


def test_types_are_written_short() -> None:
    """Alternatives, lists, limits and links to other types."""
    fields = {field.name: field for field in schema_fields(_components(Place)["Place"])}
    words = {name: "".join(part.text for part in field.kind) for name, field in fields.items()}
    assert words == {
        "name": "string",
        "inside": "Place | null",
        "parts": "Place[]",
        "level": "integer, minimum 3",
        "kind": '"city" | "town"',
        "note": "string | null",
    }
    assert TypePart("Place", "Place") in fields["parts"].kind
    assert (fields["note"].default, fields["note"].required, fields["name"].required) == ("null", False, True)
    assert type_notation({}) == [TypePart("any")]
    assert type_notation({"type": ["number", "string"]}) == [TypePart("number | string")]


def test_an_example_fits_its_type_and_has_an_end() -> None:
    """It can be read as the type it was made for, also where the type holds itself."""
    components = _components(Place)
    made = required_example(components["Place"], components, frozenset({"Place"}))
    assert made == {"name": "example", "inside": None, "parts": [], "level": 3, "kind": "city"}
    assert msgspec.convert(made, Place).level == 3
    assert example_of({"$ref": "#/components/schemas/Place"}, components) == made


def test_the_authors_own_example_comes_first() -> None:
    """Then the default, then the first choice."""
    assert example_of({"examples": ["a"], "default": "b", "enum": ["c"]}, {}) == "a"
    assert example_of({"default": "b", "enum": ["c"]}, {}) == "b"
    assert example_of({"enum": ["c"]}, {}) == "c"
    assert example_of({"type": "number"}, {}) == 1
