"""A value that fits a schema: what the author gave as an example, else what the schema gives away."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_BY_TYPE: Mapping[str, Any] = {"string": "example", "boolean": True, "array": [], "object": {}, "null": None}


def ref_name(schema: Schema) -> str | None:
    """The name of the schema that this one only points to."""
    ref = schema.get("$ref")
    return ref.rpartition("/")[2] if isinstance(ref, str) else None


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
