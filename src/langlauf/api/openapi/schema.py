"""JSON schemas of structs, for responses and requests, and examples that fit them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER

Document = dict[str, Any]
Struct = type[msgspec.Struct]
_REF = "#/components/schemas/{name}"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


def ref(kind: Struct | str) -> Document:
    """Return a reference to a schema by its struct or name."""
    return {"$ref": _REF.format(name=kind if isinstance(kind, str) else kind.__name__)}


def json_content(schema: Document, examples: Document | None = None, media: str = JSON) -> Document:
    """Return the content of one media type."""
    described: Document = {"schema": schema}
    if examples:
        described["examples"] = examples
    return {media: described}


def output_schemas(kinds: Iterable[Struct]) -> Document:
    """Return the schemas of responses. A field with a default is always sent; one that may be unset is optional."""
    kinds = list(kinds)
    schemas = _components(kinds)
    for kind in _reachable(kinds):
        schema = schemas[kind.__name__]
        unset = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
        schema["required"] = [name for name in schema["properties"] if name not in unset]
        for field in schema["properties"].values():
            field.pop("default", None)
    return schemas


def input_schemas(kinds: Iterable[Struct]) -> Document:
    """Return the schemas of requests: integers within the range that every JSON parser keeps exact."""
    schemas = _components(kinds)
    for schema in schemas.values():
        _bound_integers(schema)
    return schemas


def _components(kinds: Iterable[Struct]) -> Document:
    return dict(msgspec.json.schema_components(kinds, ref_template=_REF)[1])


def _reachable(kinds: Iterable[Struct]) -> list[Struct]:
    """Return these structs and those nested in them."""
    found: dict[Struct, None] = {}
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, msgspec.inspect.StructType):
            if kind.cls in found:
                continue
            found[kind.cls] = None
            waiting += [field.type for field in kind.fields]
        else:
            waiting += _inside(kind)
    return list(found)


def _inside(kind: Any) -> list[Any]:
    if isinstance(kind, msgspec.inspect.UnionType):
        return list(kind.types)
    if isinstance(kind, msgspec.inspect.Metadata):
        return [kind.type]
    return [kind.item_type] if isinstance(kind, msgspec.inspect.ListType) else []


def _bound_integers(schema: Any) -> None:
    """Bound every integer in a schema."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "integer":
            _bound(schema)
        for value in schema.values():
            _bound_integers(value)
    elif isinstance(schema, list):
        for value in schema:
            _bound_integers(value)


def _bound(schema: Any) -> None:
    if "minimum" not in schema and "exclusiveMinimum" not in schema:
        schema["minimum"] = SMALLEST_INTEGER
    if "maximum" not in schema and "exclusiveMaximum" not in schema:
        schema["maximum"] = LARGEST_INTEGER


Schema = Mapping[str, Any]
_BY_TYPE: Mapping[str, Any] = {"string": "example", "boolean": True, "array": [], "object": {}, "null": None}


def ref_name(schema: Schema) -> str | None:
    """Return the name of the referenced schema."""
    ref = schema.get("$ref")
    return ref.rpartition("/")[2] if isinstance(ref, str) else None


def example_of(schema: Schema, components: Mapping[str, Schema], inside: frozenset[str] = frozenset()) -> Any:
    """Return a valid value: the author's own example, else one derived from the schema, else one of the type."""
    given = [*schema.get("examples", ()), *(schema[word] for word in ("default", "const") if word in schema)]
    given += schema.get("enum", ())
    if given:
        return given[0]
    if name := ref_name(schema):
        # A recursive type ends here.
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
    """Return an object with the required fields only."""
    fields = schema.get("properties", {})
    return {name: example_of(fields[name], components, inside) for name in schema.get("required", ()) if name in fields}
