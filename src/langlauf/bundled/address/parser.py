"""Parse an address: its street, its postcode, the words that may name the place, and their hints."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

from langlauf.bundled.address.hints import Postcode, RegionHint, find_hints, postcode_length, read_postcode
from langlauf.bundled.address.text import clean, fold

PartRole = Literal["after_postcode", "place", "before_postcode", "street"]

_SEGMENTS: Final = re.compile(r"[,;\n\t|()\[\]、，]+|\s[-–—]\s")  # noqa: RUF001
# An address has few words; a longer text is read from its end, where the place is.
_MOST_WORDS: Final = 40


class AddressPart(msgspec.Struct, frozen=True):
    """Adjacent words of the address, and their role."""

    role: PartRole
    words: list[str]


class ParsedAddress(msgspec.Struct, frozen=True):
    """A parsed address."""

    query: str
    street: str | None
    postcode: Postcode | None
    parts: list[AddressPart]
    hints: list[RegionHint]


class _Position(msgspec.Struct, frozen=True):
    segment: int
    start: int
    length: int


def parse(query: str) -> ParsedAddress:
    """Parse an address; any text gives a result, though perhaps one without words for a place."""
    text = clean(query)
    segments = _segments(text)
    position = _find_postcode(segments)
    parts: list[AddressPart] = []
    leads = False
    for number, words in enumerate(segments):
        if position and number == position.segment:
            after = words[position.start + position.length :]
            leads = bool(_letters(after))
            parts += _before_postcode(words[: position.start], leads=leads)
            parts += [AddressPart("after_postcode", _letters(after))]
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
    return ParsedAddress(text, street, postcode, [_without_numbers(part) for part in parts], _hints(parts))


def describe(parsed: ParsedAddress) -> dict[str, object]:
    """Return the parsed address as it is stored and shown."""
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
    """Return the last postcode that a place follows, or else the last that is not the number of a house."""
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


def _before_postcode(words: list[str], *, leads: bool) -> list[AddressPart]:
    return _split(words, "before_postcode" if leads else "place", lone=False)


def _split(words: list[str], role: PartRole, *, lone: bool) -> list[AddressPart]:
    """Split words without a postcode into street and rest; `lone` words are the whole address."""
    split = split_street(words)
    if split:
        return [AddressPart("street", split.street), AddressPart(role, split.rest)]
    numbers = [at for at, word in enumerate(words) if is_house_number(word)]
    if numbers and _letters(words) and (not lone or 0 < numbers[0] < len(words) - 1):
        end = numbers[0] + 1
        if numbers[0] == 0:
            return [AddressPart("before_postcode", words)]
        return [AddressPart("street", words[:end]), AddressPart(role, words[end:])]
    return [AddressPart(role, words)]


def _letters(words: list[str]) -> list[str]:
    return [word for word in words if any(letter.isalpha() for letter in word)]


def _without_numbers(part: AddressPart) -> AddressPart:
    words = part.words if part.role == "street" else [word for word in _letters(part.words) if fold(word)]
    return AddressPart(part.role, words)


def _hints(parts: list[AddressPart]) -> list[RegionHint]:
    hints: list[RegionHint] = []
    for number, part in enumerate(parts):
        if part.role in {"place", "after_postcode"}:
            hints += find_hints(number, _without_numbers(part).words)
    return hints


# fmt: off
_BEFORE_NAME: Final = frozenset({
    "rue", "avenue", "av", "boulevard", "bd", "chemin", "ch", "route", "rte", "place", "pl", "quai", "passage",
    "allee", "impasse", "square", "sentier", "cours", "via", "viale", "piazza", "piazzale", "corso", "vicolo",
    "largo", "strada", "calle", "avenida", "avda", "plaza", "paseo", "carrer", "rua", "praca", "ulica", "ul",
    "ulitsa",
})
_AFTER_NAME: Final = frozenset({
    "street", "st", "road", "rd", "avenue", "ave", "lane", "ln", "drive", "dr", "boulevard", "blvd", "square",
    "sq", "court", "ct", "parkway", "pkwy", "terrace", "highway", "hwy", "way", "row", "crescent", "close",
    "gardens", "mews", "broadway", "strasse", "str", "gasse", "weg", "platz", "allee", "promenade",
})
# fmt: on
_COMPOUND: Final = re.compile(r".{2,}(strasse|str|gasse|gaessli|weg|platz|allee|ufer|damm|steig)$")
_COMPASS: Final = frozenset({"n", "s", "e", "w", "ne", "nw", "se", "sw"})
HOUSE_NUMBER: Final = re.compile(r"\d{1,5}([-/]\d{1,4})?[a-zA-Z]?$", re.ASCII)


class StreetSplit(NamedTuple):
    """The words of a street, and the words after it."""

    street: list[str]
    rest: list[str]


def is_house_number(word: str) -> bool:
    """Whether the word looks like a house number: figures, perhaps a range, perhaps a letter."""
    return HOUSE_NUMBER.match(word) is not None


def split_street(words: list[str]) -> StreetSplit | None:
    """Split words after the street, found by words such as `rue` and `street`; None without such a word."""
    for at, word in enumerate(words):
        folded = fold(word)
        if _ends_street(words, at, folded):
            end = at + 1
            while end < len(words) and (is_house_number(words[end]) or fold(words[end]) in _COMPASS):
                end += 1
            return StreetSplit(words[:end], words[end:])
        if folded in _BEFORE_NAME and all(is_house_number(earlier) for earlier in words[:at]) and at + 1 < len(words):
            return _split_after_number(words, at)
    return None


def _ends_street(words: list[str], at: int, folded: str) -> bool:
    if folded == "st":
        # `St.` is a saint after a number or at the start, and a street at the end or where a number opens the words.
        named = at > 0 and not is_house_number(words[at - 1])
        return named and (at == len(words) - 1 or is_house_number(words[0]))
    if folded in _AFTER_NAME and at > 0 and not is_house_number(words[at - 1]):
        return True
    return _COMPOUND.match(folded) is not None


def _split_after_number(words: list[str], marker: int) -> StreetSplit:
    for end in range(marker + 1, len(words)):
        if is_house_number(words[end]):
            return StreetSplit(words[: end + 1], words[end + 1 :])
    return StreetSplit(words, [])
