"""Countries and regions that an address names, by name or by code."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from langlauf.bundled.address.data import countries, us_states
from langlauf.bundled.address.place_names import CANTONS, COUNTRY_NAMES, POSTCODE_AREAS, POSTCODE_PREFIXES, REGION_NAMES
from langlauf.bundled.address.text import fold

_LONGEST_NAME = 6


class RegionMeaning(msgspec.Struct, frozen=True):
    """A country, or a region of it, that a text may stand for."""

    country: str
    region: str | None = None


class RegionHint(msgspec.Struct, frozen=True):
    """Words of the address, `part` and `start` to `end` in it, that name one of several countries or regions.

    A name written out is sure; a code of two or three letters is not, since many stand for several.
    """

    text: str
    part: int
    start: int
    end: int
    sure: bool
    meanings: list[RegionMeaning]


def find_hints(part: int, words: list[str]) -> list[RegionHint]:
    """Return the hints in one part of an address, longest names first, no two over the same words."""
    found: list[RegionHint] = []
    taken: set[int] = set()
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            span = range(start, start + length)
            if taken.isdisjoint(span) and (hint := _hint(part, words, start, start + length)):
                found.append(hint)
                taken.update(span)
    return found


def _hint(part: int, words: list[str], start: int, end: int) -> RegionHint | None:
    text = " ".join(words[start:end])
    if meanings := _names().get(fold(text)):
        return RegionHint(text, part, start, end, True, list(meanings))
    # Small words such as `in`, `de` and `la` are codes too, but only where an address ends with them.
    alone = len(words) == 1
    closing = end == len(words) and text.isupper()
    if end - start == 1 and (alone or closing) and (meanings := _codes().get(text.upper().replace(".", ""))):
        return RegionHint(text, part, start, end, False, list(meanings))
    return None


@cache
def _names() -> dict[str, tuple[RegionMeaning, ...]]:
    names: dict[str, list[RegionMeaning]] = {}
    for name, meaning in [*_country_names(), *_canton_names(), *_region_names()]:
        known = names.setdefault(fold(name), [])
        if meaning not in known:
            known.append(meaning)
    return {name: tuple(meanings) for name, meanings in names.items()}


def _country_names() -> Iterator[tuple[str, RegionMeaning]]:
    for code, country in countries().items():
        for name in (country.name, *COUNTRY_NAMES.get(code, ())):
            yield name, RegionMeaning(code)


def _canton_names() -> Iterator[tuple[str, RegionMeaning]]:
    for code, canton in CANTONS.items():
        for name in canton:
            for written in (name, f"Kanton {name}", f"Canton {name}", f"Canton de {name}", f"Cantone {name}"):
                yield written, RegionMeaning("CH", code)


def _region_names() -> Iterator[tuple[str, RegionMeaning]]:
    for state in us_states().values():
        yield state.name, RegionMeaning("US", state.code)
    for country, regions in REGION_NAMES.items():
        for code, names in regions.items():
            for name in names:
                if not _is_code(name):
                    yield name, RegionMeaning(country, code)


@cache
def _codes() -> dict[str, tuple[RegionMeaning, ...]]:
    codes: dict[str, list[RegionMeaning]] = {}
    for code, country in countries().items():
        codes.setdefault(code, []).append(RegionMeaning(code))
        codes.setdefault(country.iso3, []).append(RegionMeaning(code))
    for canton in CANTONS:
        codes.setdefault(canton, []).append(RegionMeaning("CH", canton))
    for state in us_states():
        codes.setdefault(state, []).append(RegionMeaning("US", state))
    for country_code, regions in REGION_NAMES.items():
        for code, written_names in regions.items():
            for name in filter(_is_code, written_names):
                codes.setdefault(name, []).append(RegionMeaning(country_code, code))
    return {code: tuple(meanings) for code, meanings in codes.items()}


def _is_code(name: str) -> bool:
    return name.isupper() and name.isascii()


_PREFIXED: Final = re.compile(r"([A-Z]{1,2})-(\d{4,5})$", re.ASCII)
_ONE_WORD: Final = re.compile(r"(\d{4,6}|\d{5}-\d{4}|\d{3}-\d{4}|\d{4}-\d{3}|\d{5}-\d{3}|\d{2}-\d{3})$", re.ASCII)
_TWO_WORDS: Final = re.compile(r"([A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d)$", re.ASCII)

# The first figure of a code of the United States and the states it stands for.
_ZIP_AREAS: Final = {
    "0": "CT MA ME NH NJ RI VT",
    "1": "DE NY PA",
    "2": "DC MD NC SC VA WV",
    "3": "AL FL GA MS TN",
    "4": "IN KY MI OH",
    "5": "IA MN MT ND SD WI",
    "6": "IL KS MO NE",
    "7": "AR LA OK TX",
    "8": "AZ CO ID NM NV UT WY",
    "9": "AK CA HI OR WA",
}


class Postcode(msgspec.Struct, frozen=True):
    """A postcode: its text, the country its prefix names, and every country that writes its codes so."""

    text: str
    country: str | None
    countries: list[str]
    leads: bool
    """Whether the place stands after it, as in most of Europe."""


def postcode_length(words: list[str], at: int) -> int:
    """Return how many words from `at` on make a postcode: 0 for none, 1 or 2."""
    if at + 1 < len(words) and _TWO_WORDS.match(f"{words[at]} {words[at + 1]}".upper()):
        return 2
    word = words[at].upper()
    return int(_ONE_WORD.match(word) is not None or _prefix(word) is not None)


def read_postcode(text: str, *, leads: bool) -> Postcode:
    """Return what a text that is a postcode says."""
    text = text.upper()
    prefix = _prefix(text)
    code = text.split("-", 1)[1] if prefix else text
    fitting = [country for country, pattern in _patterns().items() if pattern.fullmatch(code)]
    return Postcode(code, prefix, fitting, leads)


def regions_of(postcode: Postcode, country: str) -> frozenset[str] | None:
    """Return the regions of the country the postcode belongs to, or None if it does not determine them."""
    if country == "CH" and "CH" in postcode.countries:
        return POSTCODE_AREAS.get(postcode.text[0], frozenset())
    # Elsewhere five figures before the place are a European code.
    if country == "US" and "US" in postcode.countries and not postcode.leads:
        return frozenset(_ZIP_AREAS[postcode.text[0]].split())
    return None


def _prefix(word: str) -> str | None:
    match = _PREFIXED.match(word)
    if match is None:
        return None
    letters = match[1]
    return POSTCODE_PREFIXES.get(letters) or (letters if letters in countries() else None)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    return {
        code: re.compile(country.postalcoderegex.strip())
        for code, country in countries().items()
        if country.postalcoderegex
    }
