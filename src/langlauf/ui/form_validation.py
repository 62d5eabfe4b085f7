"""Values of a submitted form, with an error for each invalid field."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from langlauf.analysis.schema import FlawCode, InputFlaw, InvalidInput, flaw_of
from langlauf.api.requests import parse_json
from langlauf.problems import Problem
from langlauf.ui.form_fields import CHECKED, TYPED_KINDS, FieldKind, FormField
from langlauf.ui.language import Language

#: Every error that has a text: flaws of a value, of the address of a webhook or a mail, and of a form.
ERROR_NAMES = (
    *FlawCode,
    *("https", "port", "inner", "user", "own", "unsigned", "address"),
    *("mail", "mail_domain", "mail_unlisted"),
    *("unknown_near", "duration", "json", "item", "part"),
    *(
        "later_both",
        "later_far",
        "start_by_passed",
        "one_time",
        "interval",
        "zone",
        "cron",
        "cron_never",
        "taken",
        "too_many",
    ),
)


class FormFieldError(msgspec.Struct, frozen=True):
    """An error by name, with the values for its text."""

    name: str
    values: dict[str, Any] = {}

    def message(self, language: Language) -> Markup:
        """Return the error in a language."""
        values = {
            name: value.message(language) if isinstance(value, FormFieldError) else value
            for name, value in self.values.items()
        }
        return language.text(f"form.error.{self.name}", **values)


def flaw_error(flaw: InputFlaw) -> FormFieldError:
    """Return a flaw as the error of a form, without its place."""
    if flaw.code is FlawCode.UNKNOWN:
        name = "unknown_near" if flaw.nearest else "unknown"
        return FormFieldError(name, {"limit": str(flaw.place[-1]), "nearest": flaw.nearest})
    return FormFieldError(flaw.code, {"limit": flaw.limit})


def input_error(error: InvalidInput) -> FormFieldError:
    """Return an error that the service found, in words of the form; one without a code says it itself."""
    if error.flaw is not None:
        return flaw_error(error.flaw)
    return FormFieldError(error.code or FlawCode.OTHER, {"limit": error.limit or error.message})


def list_item_error(number: int, error: FormFieldError) -> FormFieldError:
    """Return the error of one value in a list."""
    return FormFieldError("item", {"number": number, "error": error})


_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3})?", re.ASCII)


class InvalidField(Exception):
    """The text of a field is not a valid value; `html_name` is the field inside a row."""

    def __init__(self, error: FormFieldError, html_name: str = "") -> None:
        super().__init__(error.name)
        self.error = error
        self.html_name = html_name


class FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted form: texts and errors by HTML name, to show it again, and values by parameter name."""

    texts: dict[str, str]
    values: dict[str, Any]
    errors: dict[str, FormFieldError]


def read_form_values(
    form_fields: Sequence[FormField], input_type: type[msgspec.Struct], fields: Mapping[str, str], max_depth: int
) -> FormValues:
    """Parse and validate every field, so that all errors show at once. Empty optional fields are left out."""
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    errors: dict[str, FormFieldError] = {}
    types = {field.encode_name: field.type for field in msgspec.structs.fields(input_type)}
    for field in form_fields:
        own = {name: fields.get(name, "").replace("\r\n", "\n") for name in _html_names(field, fields)}
        texts |= own
        try:
            by_rows = field.kind is FieldKind.ROWS and not own[field.html_name].strip()
            parse = _parse_rows if by_rows else _parse_field
            given = parse(field, own, max_depth)
            if given is not msgspec.UNSET:
                values[field.name] = _validated(field, given, types[field.name], by_rows=by_rows, texts=own)
        except InvalidField as invalid:
            errors[invalid.html_name or field.html_name] = invalid.error
    return FormValues(texts=texts, values=values, errors=errors)


def _html_names(field: FormField, fields: Mapping[str, str]) -> list[str]:
    rows = [cell.html_name for number in range(field.row_count(fields)) for cell in field.row(number)]
    return [field.html_name, *(rows if field.kind is FieldKind.ROWS else ())]


def _filled_rows(field: FormField, texts: Mapping[str, str]) -> list[list[FormField]]:
    """Return the rows in which anything was typed."""
    rows = (field.row(number) for number in range(field.row_count(texts)))
    return [row for row in rows if any(texts[cell.html_name].strip() for cell in row if cell.kind in TYPED_KINDS)]


def _parse_rows(field: FormField, texts: Mapping[str, str], max_depth: int) -> Any:
    """Return the records of the rows that are filled in."""
    records = []
    for row in _filled_rows(field, texts):
        record = {}
        for cell in row:
            try:
                given = _parse_field(cell, texts, max_depth)
            except InvalidField as invalid:
                raise InvalidField(invalid.error, cell.html_name) from None
            if given is not msgspec.UNSET:
                record[cell.name] = given
        records.append(record)
    return records or _empty_value(field)


def _parse_field(field: FormField, texts: Mapping[str, str], max_depth: int) -> Any:
    """Parse the text of a field; return UNSET where the analysis takes its default."""
    text = texts[field.html_name]
    if field.kind is FieldKind.FLAG:
        return text == CHECKED
    if not (text if field.kind in (FieldKind.TEXT, FieldKind.LONG) else text.strip()):
        return _empty_value(field)
    if field.kind is FieldKind.LINES:
        return _parse_lines(field.item, text)
    if field.kind in (FieldKind.JSON, FieldKind.ROWS):
        return _parse_json_text(text, max_depth)
    if field.kind is FieldKind.CHOICE:
        return _parse_choice(field, text)
    return _parse_scalar(field.kind, text)


def _empty_value(field: FormField) -> Any:
    if field.nullable:
        return None
    if field.required and field.kind in (FieldKind.LINES, FieldKind.ROWS):
        return []
    if field.required:
        raise InvalidField(FormFieldError("missing"))
    return msgspec.UNSET


def _parse_scalar(kind: FieldKind, text: str) -> Any:
    if kind is FieldKind.WHOLE:
        if not _INTEGER.fullmatch(text.strip()):
            raise InvalidField(FormFieldError("whole"))
        return int(text)
    if kind is FieldKind.NUMBER:
        if not _NUMBER.fullmatch(text.strip()):
            raise InvalidField(FormFieldError("number"))
        return int(text) if _INTEGER.fullmatch(text.strip()) else float(text)
    return text


def _parse_lines(item: FieldKind, text: str) -> list[Any]:
    found: list[Any] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            found.append(_parse_scalar(item, line))
        except InvalidField as invalid:
            raise InvalidField(list_item_error(len(found) + 1, invalid.error)) from None
    return found


def _parse_choice(field: FormField, text: str) -> Any:
    if text not in [choice.value for choice in field.choices]:
        listed = ", ".join(choice.label or choice.value for choice in field.choices)
        raise InvalidField(FormFieldError("choice", {"limit": listed}))
    return msgspec.json.decode(text)


def _parse_json_text(text: str, max_depth: int) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), max_depth)
    except Problem as problem:
        raise InvalidField(_json_error(text, problem)) from None


def _json_error(text: str, problem: Problem) -> FormFieldError:
    """Return where a text stops being JSON; or, of JSON that cannot be stored, why."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return FormFieldError("json", {"line": error.lineno, "column": error.colno})
    except RecursionError:
        pass
    return FormFieldError(FlawCode.OTHER, {"limit": problem.message})


def _validated(field: FormField, value: Any, kind: Any, *, by_rows: bool, texts: Mapping[str, str]) -> Any:
    """Return the value if the type of the parameter accepts it; raise InvalidField otherwise."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        flaw = flaw_of(error, value, kind)
        if by_rows and flaw.place:
            raise _row_error(field, flaw, texts) from None
        raise InvalidField(_located_error(field, flaw)) from None
    return value


def _row_error(field: FormField, flaw: InputFlaw, texts: Mapping[str, str]) -> InvalidField:
    number, *inside = flaw.place
    row = _filled_rows(field, texts)[int(number)]
    cell = next((cell for cell in row if [cell.name] == inside[:1]), row[0])
    return InvalidField(flaw_error(flaw), cell.html_name)


def _located_error(field: FormField, flaw: InputFlaw) -> FormFieldError:
    error = flaw_error(flaw)
    if not flaw.place:
        return error
    first = flaw.place[0]
    if field.kind is FieldKind.LINES and isinstance(first, int):
        return list_item_error(first + 1, error)
    return FormFieldError("part", {"place": flaw.field, "error": error})
