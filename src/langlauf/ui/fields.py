"""JSON schema becomes readable: the fields of an object, types in a short notation, and an example to send."""

from collections.abc import Mapping
from typing import Any

import msgspec

Schema = Mapping[str, Any]
#: What narrows a type, as JSON schema calls it.
_LIMITS = (
    "format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_BY_TYPE: Mapping[str, Any] = {"string": "example", "boolean": True, "array": [], "object": {}, "null": None}


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


def ref_name(schema: Schema) -> str | None:
    """The name of the schema that this one only points to."""
    ref = schema.get("$ref")
    return ref.rpartition("/")[2] if isinstance(ref, str) else None


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
    limits = "".join(f", {word} {schema[word]}" for word in _LIMITS if word in schema)
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


def example_of(schema: Schema, components: Mapping[str, Schema], inside: frozenset[str] = frozenset()) -> Any:
    """A value that fits: the author's own example, else what the schema gives away, else something of the type."""
    given = [*schema.get("examples", ()), *(schema[word] for word in ("default", "const") if word in schema)]
    given += schema.get("enum", ())
    if given:
        return given[0]
    if name := ref_name(schema):
        # A type that holds itself has no end; it ends here.
        return None if name in inside else example_of(components.get(name, {}), components, inside | {name})
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return example_of(alternatives[0], components, inside)
    return _of_type(schema, components, inside)


def _of_type(schema: Schema, components: Mapping[str, Schema], inside: frozenset[str]) -> Any:
    names = schema.get("type", "string")
    name = names if isinstance(names, str) else names[0]
    if name in ("integer", "number"):
        return schema.get("minimum", 1)
    if name == "object" and schema.get("required"):
        return required_example(schema, components, inside)
    return _BY_TYPE.get(name)


def required_example(
    schema: Schema, components: Mapping[str, Schema], inside: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """An object with what must be there, and nothing else."""
    fields = schema.get("properties", {})
    return {name: example_of(fields[name], components, inside) for name in schema.get("required", ()) if name in fields}
