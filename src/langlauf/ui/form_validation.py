"""Values of a submitted form, or an error beside each field that is wrong."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from langlauf.api.requests import parse_json
from langlauf.problems import Problem
from langlauf.ui.form_fields import CHECKED, FieldKind, FormField
from langlauf.ui.language import Language

#: What the checks of msgspec say, and the word it has here. The other words are those of `reading`.
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
)
#: What the check of a web address says; whatever else it says means that it is none.
_WEBHOOK_URL_ERRORS = (
    ("https", re.compile(r"the address must start with https://")),
    ("port", re.compile(r"the address must be at port (?P<limit>\d+)")),
    ("inner", re.compile(r"(?P<limit>\S+) is (?:a name inside|inside|an address of one|a cloud|no address)")),
    ("user", re.compile(r"the address must not have a user")),
    ("own", re.compile(r"the address is this server's own")),
    ("unsigned", re.compile(r"webhooks are signed")),
)
#: What the check of a receiver of mail says; whatever else it says means that it is no address.
_MAIL_ADDRESS_ERRORS = (
    ("mail_domain", re.compile(r"email: the domain of the address")),
    ("mail_unlisted", re.compile(r"email: the address is not on the list")),
)
ERROR_NAMES = (
    *(word for word, _ in (*_MSGSPEC_ERRORS, *_WEBHOOK_URL_ERRORS, *_MAIL_ADDRESS_ERRORS)),
    "mail",
    "address",
    "missing",
    "whole",
    "number",
    "json",
    "item",
    "other",
)


class FieldError(msgspec.Struct, frozen=True):
    """One flaw: its word, and what belongs into the sentence."""

    word: str
    values: dict[str, Any] = {}

    def say(self, language: Language) -> Markup:
        """The sentence."""
        values = {
            name: value.say(language) if isinstance(value, FieldError) else value for name, value in self.values.items()
        }
        return language.say(f"form.flaw.{self.word}", **values)


def field_error(message: str) -> FieldError:
    """What a check said: in our own words where they are known, else as it was said."""
    for word, pattern in _MSGSPEC_ERRORS:
        if found := pattern.match(message):
            return FieldError(word, {"limit": found["limit"].removesuffix(".0")})
    return FieldError("other", {"message": message})


def webhook_url_error(message: str) -> FieldError:
    """What the check of a web address said, in our own words."""
    for word, pattern in _WEBHOOK_URL_ERRORS:
        if found := pattern.match(message):
            return FieldError(word, {"limit": found.groupdict().get("limit", "")})
    return FieldError("address")


def mail_address_error(message: str) -> FieldError:
    """What the check of a receiver of mail said, in our own words."""
    return FieldError(next((word for word, pattern in _MAIL_ADDRESS_ERRORS if pattern.match(message)), "mail"))


def list_item_error(number: int, flaw: FieldError) -> FieldError:
    """A flaw of one value of a list."""
    return FieldError("item", {"number": number, "flaw": flaw})


_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3})?", re.ASCII)
#: Where in a list the check stumbled.
_LIST_POSITION = re.compile(r" - at `\$\[(?P<index>\d+|\.\.\.)\](?P<rest>[^`]*)`$")


class InvalidField(Exception):
    """An entry cannot be read."""

    def __init__(self, flaw: FieldError) -> None:
        super().__init__(flaw.word)
        self.flaw = flaw


class FormValues(msgspec.Struct, frozen=True, kw_only=True):
    """A form as it was filled in: texts and flaws by field, to show them again, and the values by name."""

    texts: dict[str, str]
    values: dict[str, Any]
    flaws: dict[str, FieldError]


def read_form_values(
    entries: Sequence[FormField], input_type: type[msgspec.Struct], fields: Mapping[str, str], deepest: int
) -> FormValues:
    """Reads every entry, so that all flaws are told at once. What was left empty is left out."""
    texts = {entry.field: fields.get(entry.field, "").replace("\r\n", "\n") for entry in entries}
    types = {field.encode_name: field.type for field in msgspec.structs.fields(input_type)}
    values: dict[str, Any] = {}
    flaws: dict[str, FieldError] = {}
    for entry in entries:
        try:
            given = _parse_field(entry, texts[entry.field], deepest)
            if given is not msgspec.UNSET:
                values[entry.name] = _validated(entry, given, types[entry.name])
        except InvalidField as wrong:
            flaws[entry.field] = wrong.flaw
    return FormValues(texts=texts, values=values, flaws=flaws)


def _parse_field(entry: FormField, text: str, deepest: int) -> Any:
    """The value of a text; UNSET where the analysis shall take its default."""
    if entry.kind is FieldKind.FLAG:
        return text == CHECKED
    if not (text if entry.kind in (FieldKind.TEXT, FieldKind.LONG) else text.strip()):
        return _empty_value(entry)
    if entry.kind is FieldKind.LINES:
        return _parse_lines(entry.item, text)
    if entry.kind is FieldKind.JSON:
        return _parse_json_text(text, deepest)
    if entry.kind is FieldKind.CHOICE:
        return _parse_choice(entry, text)
    return _parse_scalar(entry.kind, text)


def _empty_value(entry: FormField) -> Any:
    if entry.nullable:
        return None
    if entry.required and entry.kind is FieldKind.LINES:
        return []
    if entry.required:
        raise InvalidField(FieldError("missing"))
    return msgspec.UNSET


def _parse_scalar(kind: FieldKind, text: str) -> Any:
    if kind is FieldKind.WHOLE:
        if not _INTEGER.fullmatch(text.strip()):
            raise InvalidField(FieldError("whole"))
        return int(text)
    if kind is FieldKind.NUMBER:
        if not _NUMBER.fullmatch(text.strip()):
            raise InvalidField(FieldError("number"))
        return int(text) if _INTEGER.fullmatch(text.strip()) else float(text)
    return text


def _parse_lines(item: FieldKind, text: str) -> list[Any]:
    found: list[Any] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            found.append(_parse_scalar(item, line))
        except InvalidField as wrong:
            raise InvalidField(list_item_error(len(found) + 1, wrong.flaw)) from None
    return found


def _parse_choice(entry: FormField, text: str) -> Any:
    if text not in [choice.value for choice in entry.choices]:
        raise InvalidField(FieldError("choice", {"limit": text}))
    return msgspec.json.decode(text)


def _parse_json_text(text: str, deepest: int) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), deepest)
    except Problem as problem:
        raise InvalidField(FieldError("json", {"message": problem.message})) from None


def _validated(entry: FormField, value: Any, kind: Any) -> Any:
    """The value, as the analysis' own type allows it."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidField(_located_error(entry, str(error))) from None
    return value


def _located_error(entry: FormField, said: str) -> FieldError:
    place = _LIST_POSITION.search(said)
    if place is None:
        return field_error(said)
    flaw = field_error(said[: place.start()])
    if entry.kind is FieldKind.LINES and place["index"].isdigit():
        return list_item_error(int(place["index"]) + 1, flaw)
    return flaw if flaw.word != "other" else FieldError("other", {"message": said})
