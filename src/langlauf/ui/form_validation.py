"""Values of a submitted form, with an error for each invalid field."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from langlauf.api.requests import parse_json
from langlauf.problems import Problem
from langlauf.ui.form_fields import CHECKED, FieldKind, FormField
from langlauf.ui.language import Language

#: Messages of msgspec and of the API, and the name of our text for each.
_MSGSPEC_ERRORS = (
    ("shortest", re.compile(r"Expected `str` of length >= (?P<limit>\d+)")),
    ("longest", re.compile(r"Expected `str` of length <= (?P<limit>\d+)")),
    ("fewest", re.compile(r"Expected `(?:array|object)` of length >= (?P<limit>\d+)")),
    ("most", re.compile(r"Expected `(?:array|object)` of length <= (?P<limit>\d+)")),
    ("at_least", re.compile(r"Expected `\w+` >= (?P<limit>\S+)")),
    ("at_most", re.compile(r"Expected `\w+` <= (?P<limit>\S+)")),
    ("over", re.compile(r"Expected `\w+` > (?P<limit>\S+)")),
    ("under", re.compile(r"Expected `\w+` < (?P<limit>\S+)")),
    ("multiple", re.compile(r"Expected `\w+` that's a multiple of (?P<limit>\S+)")),
    ("pattern", re.compile(r"Expected `str` matching regex (?P<limit>.+)")),
    ("choice", re.compile(r"Invalid enum value (?P<limit>.+)")),
    ("whole", re.compile(r"Expected `int(?P<limit>)")),
    ("number", re.compile(r"Expected `(?:float|number)(?P<limit>)")),
    ("duration", re.compile(r"timeout_seconds must be a number(?P<limit>)")),
)
#: Messages of the webhook URL check; any other means that it is not a web address.
_WEBHOOK_URL_ERRORS = (
    ("https", re.compile(r"the URL must start with https://")),
    ("port", re.compile(r"the URL must use port (?P<limit>\d+)")),
    (
        "inner",
        re.compile(r"(?P<limit>\S+) is (?:a name of a private|on a private|an address with|a cloud|not the address)"),
    ),
    ("user", re.compile(r"the URL must not have a user")),
    ("own", re.compile(r"the URL is this server's own")),
    ("unsigned", re.compile(r"webhooks are signed")),
)
#: Messages of the mail address check; any other means that it is not an address.
_MAIL_ADDRESS_ERRORS = (
    ("mail_domain", re.compile(r"email: the domain of the address")),
    ("mail_unlisted", re.compile(r"email: the address is not on the list")),
)
ERROR_NAMES = (
    *(word for word, _ in (*_MSGSPEC_ERRORS, *_WEBHOOK_URL_ERRORS, *_MAIL_ADDRESS_ERRORS)),
    "mail",
    "address",
    "missing",
    "json",
    "item",
    "other",
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


def field_error(message: str) -> FormFieldError:
    """Translate a validation message; an unknown one is shown as it is, without backticks."""
    for word, pattern in _MSGSPEC_ERRORS:
        if found := pattern.match(message):
            return FormFieldError(word, {"limit": found["limit"].removesuffix(".0")})
    return FormFieldError("other", {"message": message.replace("`", "")})


def webhook_url_error(message: str) -> FormFieldError:
    """Translate a message of the webhook URL check."""
    for word, pattern in _WEBHOOK_URL_ERRORS:
        if found := pattern.match(message):
            return FormFieldError(word, {"limit": found.groupdict().get("limit", "")})
    return FormFieldError("address")


def mail_address_error(message: str) -> FormFieldError:
    """Translate a message of the mail address check."""
    return FormFieldError(next((word for word, pattern in _MAIL_ADDRESS_ERRORS if pattern.match(message)), "mail"))


def list_item_error(number: int, error: FormFieldError) -> FormFieldError:
    """Return the error of one value in a list."""
    return FormFieldError("item", {"number": number, "error": error})


_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3})?", re.ASCII)
#: Position in a list, at the end of a msgspec message.
_LIST_POSITION = re.compile(r" - at `\$\[(?P<index>\d+|\.\.\.)\](?P<rest>[^`]*)`$")


class InvalidField(Exception):
    """The text of a field is not a valid value."""

    def __init__(self, error: FormFieldError) -> None:
        super().__init__(error.name)
        self.error = error


class FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted form: texts and errors by HTML name, to show it again, and values by parameter name."""

    texts: dict[str, str]
    values: dict[str, Any]
    errors: dict[str, FormFieldError]


def read_form_values(
    form_fields: Sequence[FormField], input_type: type[msgspec.Struct], fields: Mapping[str, str], max_depth: int
) -> FormValues:
    """Parse and validate every field, so that all errors show at once. Empty optional fields are left out."""
    texts = {field.html_name: fields.get(field.html_name, "").replace("\r\n", "\n") for field in form_fields}
    types = {field.encode_name: field.type for field in msgspec.structs.fields(input_type)}
    values: dict[str, Any] = {}
    errors: dict[str, FormFieldError] = {}
    for field in form_fields:
        try:
            given = _parse_field(field, texts[field.html_name], max_depth)
            if given is not msgspec.UNSET:
                values[field.name] = _validated(field, given, types[field.name])
        except InvalidField as invalid:
            errors[field.html_name] = invalid.error
    return FormValues(texts=texts, values=values, errors=errors)


def _parse_field(field: FormField, text: str, max_depth: int) -> Any:
    """Parse the text of a field; return UNSET where the analysis takes its default."""
    if field.kind is FieldKind.FLAG:
        return text == CHECKED
    if not (text if field.kind in (FieldKind.TEXT, FieldKind.LONG) else text.strip()):
        return _empty_value(field)
    if field.kind is FieldKind.LINES:
        return _parse_lines(field.item, text)
    if field.kind is FieldKind.JSON:
        return _parse_json_text(text, max_depth)
    if field.kind is FieldKind.CHOICE:
        return _parse_choice(field, text)
    return _parse_scalar(field.kind, text)


def _empty_value(field: FormField) -> Any:
    if field.nullable:
        return None
    if field.required and field.kind is FieldKind.LINES:
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
        raise InvalidField(FormFieldError("choice", {"limit": text}))
    return msgspec.json.decode(text)


def _parse_json_text(text: str, max_depth: int) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), max_depth)
    except Problem as problem:
        raise InvalidField(FormFieldError("json", {"message": problem.message})) from None


def _validated(field: FormField, value: Any, kind: Any) -> Any:
    """Return the value if the type of the parameter accepts it; raise InvalidField otherwise."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidField(_located_error(field, str(error))) from None
    return value


def _located_error(field: FormField, said: str) -> FormFieldError:
    place = _LIST_POSITION.search(said)
    if place is None:
        return field_error(said)
    error = field_error(said[: place.start()])
    if field.kind is FieldKind.LINES and place["index"].isdigit():
        return list_item_error(int(place["index"]) + 1, error)
    located = error.name in ("other", "whole", "number")  # errors of limits need no location
    return FormFieldError("other", {"message": said.replace("`", "")}) if located else error
