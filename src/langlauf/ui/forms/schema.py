"""JSON schema becomes entries of a form: each as narrow as its schema allows, JSON where nothing else fits."""

import re
from collections.abc import Mapping
from typing import Any

from langlauf.api.openapi.schema import Schema, ref_name
from langlauf.domain.redact import secret_name
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER
from langlauf.ui.forms.entry import Choice, Entry, Kind
from langlauf.ui.forms.writing import text_of

#: A text that may be longer than this gets more than one line.
ONE_LINE = 1_000
#: Words of an author who wants more than one line whatever the length.
_LONG_FORMATS = ("multiline", "textarea", "markdown", "csv", "json")
_SCALARS = {"string": Kind.TEXT, "integer": Kind.WHOLE, "number": Kind.NUMBER, "boolean": Kind.FLAG}
_LENGTHS = {"minLength": "minlength", "maxLength": "maxlength"}
_BOUNDS = {"minimum": "min", "maximum": "max"}
_NO_BOUND = (LARGEST_INTEGER, SMALLEST_INTEGER)
#: What browsers and Python read alike: the attribute is left out for any other pattern, and the server checks.
_PLAIN_PATTERN = re.compile(
    r"(?:\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_ ])+\]|[A-Za-z0-9_ ]|\\[d.]|[.+*?|]|\{\d+(?:,\d*)?\}"
    r"|\((?:\?:|(?!\?))|\))*"
)
_YES_NO = (Choice("true", ""), Choice("false", ""))


def entries_of(schema: Schema, components: Mapping[str, Schema]) -> list[Entry]:
    """The entries of an object, in the order its fields were declared."""
    required = schema.get("required", ())
    fields = schema.get("properties", {})
    return [_entry(name, field, components, required=name in required) for name, field in fields.items()]


def _entry(name: str, field: Schema, components: Mapping[str, Schema], *, required: bool) -> Entry:
    schema, nullable = _narrowed(field, components)
    kind = _kind(schema, nullable=nullable)
    item = _item(schema, components)
    if kind is Kind.JSON and item is not None:
        kind = Kind.LINES
    examples = tuple(text_of(kind, example) for example in schema.get("examples", ()))
    return Entry(
        name=name,
        kind=kind,
        required=required,
        nullable=nullable,
        description=schema.get("description", ""),
        initial=text_of(kind, schema["default"]) if schema.get("default") is not None else "",
        examples=tuple(dict.fromkeys(example for example in examples if example)),
        choices=_choices(schema),
        limits=_limits(kind, schema),
        item=item or Kind.TEXT,
        secret=kind is Kind.TEXT and secret_name(name),
    )


def _narrowed(field: Schema, components: Mapping[str, Schema]) -> tuple[dict[str, Any], bool]:
    """The schema behind references, and whether null may stand in its place."""
    outer = {word: value for word, value in field.items() if word not in ("anyOf", "$ref")}
    if name := ref_name(field):
        inner, nullable = _narrowed(components.get(name, {}), components)
        return {**inner, **outer}, nullable
    alternatives = field.get("anyOf", ())
    others = [one for one in alternatives if one != {"type": "null"}]
    if len(others) == 1:
        inner, _ = _narrowed(others[0], components)
        return {**inner, **outer}, True
    return dict(field), len(others) < len(alternatives)


def _kind(schema: Schema, *, nullable: bool) -> Kind:
    if "enum" in schema:
        return Kind.CHOICE
    named = schema.get("type")
    kind = _SCALARS.get(named, Kind.JSON) if isinstance(named, str) else Kind.JSON
    if kind is Kind.FLAG and nullable:
        return Kind.CHOICE
    if kind is Kind.TEXT and schema.get("format") == "date":
        return Kind.DATE
    if kind is Kind.TEXT and (schema.get("maxLength", 0) > ONE_LINE or schema.get("format") in _LONG_FORMATS):
        return Kind.LONG
    return kind


def _item(schema: Schema, components: Mapping[str, Schema]) -> Kind | None:
    """What a list holds, where one value fits on a line."""
    items = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, Mapping):
        return None
    inner, nullable = _narrowed(items, components)
    if nullable or inner.get("type") == "boolean":
        return None
    if "enum" in inner:
        return Kind.TEXT if all(isinstance(value, str) for value in inner["enum"]) else None
    kind = _kind(inner, nullable=False)
    return {Kind.DATE: Kind.TEXT, Kind.TEXT: Kind.TEXT, Kind.WHOLE: kind, Kind.NUMBER: kind}.get(kind)


def _choices(schema: Schema) -> tuple[Choice, ...]:
    if "enum" in schema:
        return tuple(Choice(text_of(Kind.JSON, value), str(value)) for value in schema["enum"] if value is not None)
    return _YES_NO if schema.get("type") == "boolean" else ()


def _limits(kind: Kind, schema: Schema) -> dict[str, str]:
    if kind in (Kind.TEXT, Kind.LONG):
        found = {name: str(schema[word]) for word, name in _LENGTHS.items() if word in schema}
        pattern = _pattern(schema.get("pattern"))
        return {**found, "pattern": pattern} if kind is Kind.TEXT and pattern else found
    if kind in (Kind.WHOLE, Kind.NUMBER):
        step = schema.get("multipleOf", 1 if kind is Kind.WHOLE else "any")
        bounds = {name: schema[word] for word, name in _BOUNDS.items() if word in schema}
        return {name: str(bound) for name, bound in bounds.items() if bound not in _NO_BOUND} | {"step": str(step)}
    return {}


def _pattern(pattern: str | None) -> str | None:
    """A pattern as browsers want it: over the whole text, where ours is looked for anywhere in it."""
    if pattern is None:
        return None
    start, end = "" if pattern.startswith("^") else ".*", "" if pattern.endswith("$") else ".*"
    core = pattern.removeprefix("^").removesuffix("$")
    if not _PLAIN_PATTERN.fullmatch(core) or core.endswith("\\"):
        return None
    return f"{start}(?:{core}){end}" if start or end or "|" in core else core
