"""JSON schema becomes readable: the fields of an object, and types in a short notation."""

from typing import Any

import msgspec

from langlauf.api.openapi.schema import Schema, ref_name
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER

#: What narrows a type, as JSON schema calls it.
_LIMITS = (
    "format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip


#: Every integer ends there, so that it need not be said of each.
_NO_LIMIT = (None, LARGEST_INTEGER, SMALLEST_INTEGER)


class Part(msgspec.Struct, frozen=True):
    """A piece of a type. `ref` is the name of the schema it leads to."""

    text: str
    ref: str | None = None


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field or parameter. `default` is JSON text."""

    name: str
    kind: list[Part]
    required: bool
    default: str | None
    description: str
    #: path, query or header; empty for a field of a body
    where: str = ""


def to_json(value: Any) -> str:
    """A value of a schema, as JSON."""
    return msgspec.json.encode(value).decode()


def kind_of(schema: Schema) -> list[Part]:
    """The type in a notation that needs no translation: `string | null`, `"a" | "b"`, `JobOut[]`."""
    if name := ref_name(schema):
        return [Part(name, name)]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _joined([kind_of(one) for one in schema[word]], " | ")
    if "const" in schema:
        return [Part(to_json(schema["const"]))]
    if "enum" in schema:
        return [Part(" | ".join(to_json(value) for value in schema["enum"]))]
    names = schema.get("type", "any")
    base = [Part(names if isinstance(names, str) else " | ".join(names))]
    items = schema.get("items")
    if names == "array" and items:
        base = [*kind_of(items), Part("[]")]
    limits = "".join(f", {word} {schema[word]}" for word in _LIMITS if schema.get(word) not in _NO_LIMIT)
    return [*base, Part(limits)] if limits else base


def _joined(kinds: list[list[Part]], between: str) -> list[Part]:
    parts: list[Part] = []
    for number, kind in enumerate(kinds):
        parts += [Part(between), *kind] if number else kind
    return parts


def fields_of(schema: Schema) -> list[Field]:
    """The fields of an object, in the order they were declared."""
    required = schema.get("required", ())
    return [
        Field(
            name=name,
            kind=kind_of(field),
            required=name in required,
            default=to_json(field["default"]) if "default" in field else None,
            description=field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]
