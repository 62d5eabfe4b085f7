"""What a person filled in becomes the input of an analysis, or flaws that stand beside their entries."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from langlauf.api.requests import parse_json
from langlauf.problems import Problem
from langlauf.ui.forms.entry import Entry, Kind
from langlauf.ui.forms.flaws import Flaw, flaw_of, in_list
from langlauf.ui.forms.writing import TICKED

_WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,3})?", re.ASCII)
#: Where in a list the check stumbled.
_PLACE = re.compile(r" - at `\$\[(?P<index>\d+|\.\.\.)\](?P<rest>[^`]*)`$")


class Wrong(Exception):
    """An entry cannot be read."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.word)
        self.flaw = flaw


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """A form as it was filled in: texts and flaws by field, to show them again, and the values by name."""

    texts: dict[str, str]
    values: dict[str, Any]
    flaws: dict[str, Flaw]


def read_form_values(
    entries: Sequence[Entry], input_type: type[msgspec.Struct], fields: Mapping[str, str], deepest: int
) -> Filled:
    """Reads every entry, so that all flaws are told at once. What was left empty is left out."""
    texts = {entry.field: fields.get(entry.field, "").replace("\r\n", "\n") for entry in entries}
    types = {field.encode_name: field.type for field in msgspec.structs.fields(input_type)}
    values: dict[str, Any] = {}
    flaws: dict[str, Flaw] = {}
    for entry in entries:
        try:
            given = _value(entry, texts[entry.field], deepest)
            if given is not msgspec.UNSET:
                values[entry.name] = _checked(entry, given, types[entry.name])
        except Wrong as wrong:
            flaws[entry.field] = wrong.flaw
    return Filled(texts=texts, values=values, flaws=flaws)


def _value(entry: Entry, text: str, deepest: int) -> Any:
    """The value of a text; UNSET where the analysis shall take its default."""
    if entry.kind is Kind.FLAG:
        return text == TICKED
    if not (text if entry.kind in (Kind.TEXT, Kind.LONG) else text.strip()):
        return _nothing(entry)
    if entry.kind is Kind.LINES:
        return _lines(entry.item, text)
    if entry.kind is Kind.JSON:
        return _json(text, deepest)
    if entry.kind is Kind.CHOICE:
        return _choice(entry, text)
    return _scalar(entry.kind, text)


def _nothing(entry: Entry) -> Any:
    if entry.nullable:
        return None
    if entry.required and entry.kind is Kind.LINES:
        return []
    if entry.required:
        raise Wrong(Flaw("missing"))
    return msgspec.UNSET


def _scalar(kind: Kind, text: str) -> Any:
    if kind is Kind.WHOLE:
        if not _WHOLE.fullmatch(text.strip()):
            raise Wrong(Flaw("whole"))
        return int(text)
    if kind is Kind.NUMBER:
        if not _NUMBER.fullmatch(text.strip()):
            raise Wrong(Flaw("number"))
        return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)
    return text


def _lines(item: Kind, text: str) -> list[Any]:
    found: list[Any] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            found.append(_scalar(item, line))
        except Wrong as wrong:
            raise Wrong(in_list(len(found) + 1, wrong.flaw)) from None
    return found


def _choice(entry: Entry, text: str) -> Any:
    if text not in [choice.value for choice in entry.choices]:
        raise Wrong(Flaw("choice", {"limit": text}))
    return msgspec.json.decode(text)


def _json(text: str, deepest: int) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), deepest)
    except Problem as problem:
        raise Wrong(Flaw("json", {"message": problem.message})) from None


def _checked(entry: Entry, value: Any, kind: Any) -> Any:
    """The value, as the analysis' own type allows it."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Wrong(_told(entry, str(error))) from None
    return value


def _told(entry: Entry, said: str) -> Flaw:
    place = _PLACE.search(said)
    if place is None:
        return flaw_of(said)
    flaw = flaw_of(said[: place.start()])
    if entry.kind is Kind.LINES and place["index"].isdigit():
        return in_list(int(place["index"]) + 1, flaw)
    return flaw if flaw.word != "other" else Flaw("other", {"message": said})
