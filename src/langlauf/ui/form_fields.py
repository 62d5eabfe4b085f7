"""Form fields from the JSON schema of an analysis' input."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from langlauf.api.openapi.components import Schema, ref_name
from langlauf.domain.redact import is_secret_name
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER
from langlauf.ui.formats import in_words


class FieldKind(StrEnum):
    """How a field is filled in."""

    #: a single line
    TEXT = "text"
    #: several lines; can also be read from a file
    LONG = "long"
    DATE = "date"
    #: a date and a time of day, in the reader's zone
    MOMENT = "moment"
    WHOLE = "whole"
    NUMBER = "number"
    #: a checkbox
    FLAG = "flag"
    CHOICE = "choice"
    #: a list, one value per line
    LINES = "lines"
    #: a list of records, a row of fields for each
    ROWS = "rows"
    #: anything that has no form of its own
    JSON = "json"


class FieldChoice(msgspec.Struct, frozen=True):
    """One option: its value as JSON, and its label."""

    value: str
    label: str


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter as a field of a form."""

    name: str
    kind: FieldKind
    required: bool = False
    #: the group it belongs to: `in` for the input of the analysis, `option` for options of the job
    prefix: str = "in"
    #: whether null is a value
    nullable: bool = False
    #: the title in the schema, where its author gave one
    title: str = ""
    description: str = ""
    #: the default as a person would write it
    initial: str = ""
    examples: tuple[str, ...] = ()
    choices: tuple[FieldChoice, ...] = ()
    #: what the browser validates, as HTML attributes
    limits: dict[str, str] = {}
    #: the kind of the values in a list
    item: FieldKind = FieldKind.TEXT
    #: the fields of a record in a list
    columns: tuple["FormField", ...] = ()
    #: whether the name suggests a secret, which the page hides while it is typed
    secret: bool = False

    @property
    def html_name(self) -> str:
        """The name of the field in the HTML form, which does not clash with other form data."""
        return f"{self.prefix}.{self.name}"

    @property
    def label(self) -> str:
        """The title of the field, or its name as words."""
        return self.title or in_words(self.name)

    @property
    def unchecked(self) -> "FormField":
        """The same field, which a browser lets pass empty: a row that is not filled in does not count."""
        return msgspec.structs.replace(self, required=False)

    def row(self, number: int) -> list["FormField"]:
        """Return the fields of one record."""
        prefix = f"{self.html_name}.{number}"
        return [msgspec.structs.replace(column, prefix=prefix) for column in self.columns]

    def row_count(self, texts: Mapping[str, str]) -> int:
        """Return how many rows the texts of a form have."""
        start = f"{self.html_name}."
        numbers = (name.removeprefix(start).partition(".")[0] for name in texts if name.startswith(start))
        return max((int(number) + 1 for number in numbers if _ROW_NUMBER.fullmatch(number)), default=0)

    def shown_rows(self, texts: Mapping[str, str]) -> list[list["FormField"]]:
        """Return the rows to show: those that are filled in, and room for more."""
        return [self.row(number) for number in range(max(self.row_count(texts), FEWEST_ROWS))]

    @property
    def from_file(self) -> bool:
        """Whether the field can be filled from a file."""
        return self.kind in (FieldKind.LONG, FieldKind.LINES, FieldKind.JSON)


#: The value of a checked box.
CHECKED = "on"
#: Rows of an empty list, and rows that are added at once.
FEWEST_ROWS = 2
#: A longer list is shown as JSON.
MAX_SHOWN_ROWS = 50
_MAX_COLUMNS = 8
_ROW_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_COLUMN_KINDS = (FieldKind.TEXT, FieldKind.DATE, FieldKind.WHOLE, FieldKind.NUMBER, FieldKind.CHOICE, FieldKind.FLAG)
#: Kinds that are empty in a row that was not filled in.
TYPED_KINDS = (FieldKind.TEXT, FieldKind.DATE, FieldKind.WHOLE, FieldKind.NUMBER)


def field_texts(field: FormField, value: Any) -> dict[str, str]:
    """Return a value as texts by HTML name: one, or one per field of each record."""
    if field.kind is not FieldKind.ROWS:
        return {field.html_name: "" if value is None else field_text(field.kind, value)}
    rows = value if isinstance(value, list | tuple) else []
    if len(rows) > MAX_SHOWN_ROWS:
        return {field.html_name: _json_text(value)}
    texts: dict[str, str] = {}
    for number, row in enumerate(rows):
        for cell in field.row(number):
            texts |= field_texts(cell, row.get(cell.name) if isinstance(row, Mapping) else None)
    return texts


def field_text(kind: FieldKind, value: Any) -> str:
    """Return a value as the text of a field; JSON where it does not fit the kind."""
    if kind is FieldKind.FLAG:
        return CHECKED if value is True else ""
    if kind in (FieldKind.JSON, FieldKind.CHOICE, FieldKind.ROWS):
        return _json_text(value)
    if kind is FieldKind.LINES and isinstance(value, list | tuple | set | frozenset):
        return "\n".join(_plain_text(item) for item in value)
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


#: A text that may be longer gets more than one line.
MAX_SINGLE_LINE = 1_000
#: Formats that get more than one line whatever their length.
_LONG_FORMATS = ("multiline", "textarea", "markdown", "csv", "json")
_SCALARS = {"string": FieldKind.TEXT, "integer": FieldKind.WHOLE, "number": FieldKind.NUMBER, "boolean": FieldKind.FLAG}
_LENGTHS = {"minLength": "minlength", "maxLength": "maxlength"}
_BOUNDS = {"minimum": "min", "maximum": "max"}
_UNBOUNDED = (LARGEST_INTEGER, SMALLEST_INTEGER)
#: Patterns that browsers and Python read alike; for any other the attribute is left out, and the server validates.
_PLAIN_PATTERN = re.compile(
    r"(?:\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_ ])+\]|[A-Za-z0-9_ ]|\\[d.]|[.+*?|]|\{\d+(?:,\d*)?\}"
    r"|\((?:\?:|(?!\?))|\))*"
)
_YES_NO = (FieldChoice("true", ""), FieldChoice("false", ""))


def form_fields(schema: Schema, components: Mapping[str, Schema]) -> list[FormField]:
    """Return the fields of an object, in the order in which the schema declares them."""
    required = schema.get("required", ())
    fields = schema.get("properties", {})
    return [_form_field(name, field, components, required=name in required) for name, field in fields.items()]


def _form_field(name: str, field: Schema, components: Mapping[str, Schema], *, required: bool) -> FormField:
    schema, nullable = _resolve(field, components)
    kind = _field_kind(schema, nullable=nullable)
    item = _item_kind(schema, components)
    columns = _row_columns(schema, components)
    if kind is FieldKind.JSON and item is not None:
        kind = FieldKind.LINES
    elif kind is FieldKind.JSON and columns:
        kind = FieldKind.ROWS
    examples = tuple(field_text(kind, example) for example in schema.get("examples", ()))
    return FormField(
        name=name,
        kind=kind,
        required=required,
        nullable=nullable,
        title=field.get("title", ""),
        description=schema.get("description", ""),
        initial=field_text(kind, schema["default"]) if schema.get("default") not in (None, []) else "",
        examples=tuple(dict.fromkeys(example for example in examples if example)),
        choices=_field_choices(schema),
        limits=_html_limits(kind, schema),
        item=item or FieldKind.TEXT,
        columns=columns if kind is FieldKind.ROWS else (),
        secret=kind is FieldKind.TEXT and is_secret_name(name),
    )


def _resolve(field: Schema, components: Mapping[str, Schema]) -> tuple[dict[str, Any], bool]:
    """Return the schema behind references, and whether null is allowed."""
    outer = {word: value for word, value in field.items() if word not in ("anyOf", "$ref")}
    if name := ref_name(field):
        inner, nullable = _resolve(components.get(name, {}), components)
        return {**inner, **outer}, nullable
    alternatives = field.get("anyOf", ())
    others = [one for one in alternatives if one != {"type": "null"}]
    if len(others) == 1:
        inner, _ = _resolve(others[0], components)
        return {**inner, **outer}, True
    return dict(field), len(others) < len(alternatives)


def _field_kind(schema: Schema, *, nullable: bool) -> FieldKind:
    if "enum" in schema:
        return FieldKind.CHOICE
    named = schema.get("type")
    kind = _SCALARS.get(named, FieldKind.JSON) if isinstance(named, str) else FieldKind.JSON
    if kind is FieldKind.FLAG and nullable:
        return FieldKind.CHOICE
    if kind is FieldKind.TEXT and schema.get("format") == "date":
        return FieldKind.DATE
    if kind is FieldKind.TEXT and (
        schema.get("maxLength", 0) > MAX_SINGLE_LINE or schema.get("format") in _LONG_FORMATS
    ):
        return FieldKind.LONG
    return kind


def _item_kind(schema: Schema, components: Mapping[str, Schema]) -> FieldKind | None:
    """Return the kind of the values of a list, where one value fits on a line."""
    items = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, Mapping):
        return None
    inner, nullable = _resolve(items, components)
    if nullable or inner.get("type") == "boolean":
        return None
    if "enum" in inner:
        return FieldKind.TEXT if all(isinstance(value, str) for value in inner["enum"]) else None
    kind = _field_kind(inner, nullable=False)
    return {
        FieldKind.DATE: FieldKind.TEXT,
        FieldKind.TEXT: FieldKind.TEXT,
        FieldKind.WHOLE: kind,
        FieldKind.NUMBER: kind,
    }.get(kind)


def _row_columns(schema: Schema, components: Mapping[str, Schema]) -> tuple[FormField, ...]:
    """Return the fields of the records of a list, where each fits into one line; else none."""
    items = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, Mapping):
        return ()
    inner, nullable = _resolve(items, components)
    if nullable or inner.get("type") != "object" or not inner.get("properties"):
        return ()
    if any(_kind_of(field, components) not in _COLUMN_KINDS for field in inner["properties"].values()):
        return ()
    columns = tuple(form_fields(inner, components))
    typed = any(column.kind in TYPED_KINDS for column in columns)
    return columns if typed and len(columns) <= _MAX_COLUMNS else ()


def _kind_of(field: Schema, components: Mapping[str, Schema]) -> FieldKind:
    schema, nullable = _resolve(field, components)
    return _field_kind(schema, nullable=nullable)


def _field_choices(schema: Schema) -> tuple[FieldChoice, ...]:
    if "enum" in schema:
        return tuple(
            FieldChoice(field_text(FieldKind.JSON, value), str(value)) for value in schema["enum"] if value is not None
        )
    return _YES_NO if schema.get("type") == "boolean" else ()


def _html_limits(kind: FieldKind, schema: Schema) -> dict[str, str]:
    if kind in (FieldKind.TEXT, FieldKind.LONG):
        found = {name: str(schema[word]) for word, name in _LENGTHS.items() if word in schema}
        pattern = _html_pattern(schema.get("pattern"))
        return {**found, "pattern": pattern} if kind is FieldKind.TEXT and pattern else found
    if kind in (FieldKind.WHOLE, FieldKind.NUMBER):
        step = schema.get("multipleOf", 1 if kind is FieldKind.WHOLE else "any")
        bounds = {name: schema[word] for word, name in _BOUNDS.items() if word in schema}
        return {name: str(bound) for name, bound in bounds.items() if bound not in _UNBOUNDED} | {"step": str(step)}
    return {}


def _html_pattern(pattern: str | None) -> str | None:
    """Return a pattern for HTML, which matches the whole text, where ours searches in it."""
    if pattern is None:
        return None
    start, end = "" if pattern.startswith("^") else ".*", "" if pattern.endswith("$") else ".*"
    core = pattern.removeprefix("^").removesuffix("$")
    if not _PLAIN_PATTERN.fullmatch(core) or core.endswith("\\"):
        return None
    return f"{start}(?:{core}){end}" if start or end or "|" in core else core
