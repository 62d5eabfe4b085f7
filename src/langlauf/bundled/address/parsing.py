"""An address taken apart: its street, its postcode, the words that may name the place, and what they hint at."""

import re
from typing import Final, Literal

import msgspec

from .hints import Hint, find_hints
from .postcodes import Postcode, postcode_length, read_postcode
from .streets import is_house_number, split_street
from .text import clean, fold

Role = Literal["after_postcode", "place", "before_postcode", "street"]

_SEGMENTS: Final = re.compile(r"[,;\n\t|()\[\]、，]+|\s[-–—]\s")  # noqa: RUF001
# An address has few words; a longer text is read from its end, where the place stands.
_MOST_WORDS: Final = 40


class Part(msgspec.Struct, frozen=True):
    """Words of the address that stand together, and the role they play in it."""

    role: Role
    words: list[str]


class Parsed(msgspec.Struct, frozen=True):
    """An address taken apart."""

    query: str
    street: str | None
    postcode: Postcode | None
    parts: list[Part]
    hints: list[Hint]


class _Position(msgspec.Struct, frozen=True):
    segment: int
    start: int
    length: int


def parse(query: str) -> Parsed:
    """Take an address apart; any text gives a result, though perhaps one without words for a place."""
    text = clean(query)
    segments = _segments(text)
    position = _find_postcode(segments)
    parts: list[Part] = []
    leads = False
    for number, words in enumerate(segments):
        if position and number == position.segment:
            after = words[position.start + position.length :]
            leads = bool(_letters(after))
            parts += _before_postcode(words[: position.start], leads=leads)
            parts += [Part("after_postcode", _letters(after))]
        elif position and number < position.segment and _letters(_rest(segments[position.segment], position)):
            parts += _split(words, "before_postcode", lone=False)
        else:
            parts += _split(words, "place", lone=len(segments) == 1)
    parts = [part for part in parts if part.words]
    postcode = None
    if position:
        words = segments[position.segment][position.start : position.start + position.length]
        postcode = read_postcode(" ".join(words), leads=leads)
    street = next((" ".join(part.words) for part in parts if part.role == "street"), None)
    return Parsed(text, street, postcode, [_without_numbers(part) for part in parts], _hints(parts))


def describe(parsed: Parsed) -> dict[str, object]:
    """The parsed address as it is stored and shown."""
    described: dict[str, object] = msgspec.to_builtins(parsed)
    described["place_words"] = [" ".join(part.words) for part in parsed.parts if part.role != "street" and part.words]
    return described


def _segments(text: str) -> list[list[str]]:
    segments = [segment.split() for segment in _SEGMENTS.split(text)]
    kept: list[list[str]] = []
    room = _MOST_WORDS
    for words in reversed([segment for segment in segments if segment]):
        if room > 0:
            kept.insert(0, words[-room:])
            room -= len(words)
    return kept


def _find_postcode(segments: list[list[str]]) -> _Position | None:
    """The last postcode that a place follows, or else the last that is not the number of a house."""
    found: _Position | None = None
    found_leads = False
    for number, words in enumerate(segments):
        for at in range(len(words)):
            length = postcode_length(words, at)
            if length == 0 or _is_house(words, at, first=number == 0):
                continue
            leads = bool(_letters(words[at + length :]))
            if leads or not found_leads:
                found, found_leads = _Position(number, at, length), leads
    return found


def _is_house(words: list[str], at: int, *, first: bool) -> bool:
    if not is_house_number(words[at]):
        return False
    if at == 0:
        return first and split_street(words) is not None
    street = split_street(words[: at + 1])
    return street is not None and at == len(words) - 1 and not street.rest and not is_house_number(words[at - 1])


def _rest(words: list[str], position: _Position) -> list[str]:
    return words[position.start + position.length :]


def _before_postcode(words: list[str], *, leads: bool) -> list[Part]:
    return _split(words, "before_postcode" if leads else "place", lone=False)


def _split(words: list[str], role: Role, *, lone: bool) -> list[Part]:
    """Words without a postcode as street and rest; `lone` words are the whole address, so a number tells nothing."""
    split = split_street(words)
    if split:
        return [Part("street", split.street), Part(role, split.rest)]
    numbers = [at for at, word in enumerate(words) if is_house_number(word)]
    if numbers and _letters(words) and (not lone or 0 < numbers[0] < len(words) - 1):
        end = numbers[0] + 1
        if numbers[0] == 0:
            return [Part("before_postcode", words)]
        return [Part("street", words[:end]), Part(role, words[end:])]
    return [Part(role, words)]


def _letters(words: list[str]) -> list[str]:
    return [word for word in words if any(letter.isalpha() for letter in word)]


def _without_numbers(part: Part) -> Part:
    words = part.words if part.role == "street" else [word for word in _letters(part.words) if fold(word)]
    return Part(part.role, words)


def _hints(parts: list[Part]) -> list[Hint]:
    hints: list[Hint] = []
    for number, part in enumerate(parts):
        if part.role in {"place", "after_postcode"}:
            hints += find_hints(number, _without_numbers(part).words)
    return hints
