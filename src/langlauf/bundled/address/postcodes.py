"""Postcodes: which words are one, and what they say about the country and the region."""

import re
from functools import cache
from typing import Final

import msgspec

from .cantons import POSTCODE_AREAS
from .country_names import POSTCODE_PREFIXES
from .data import countries

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
    """How many words from `at` on make a postcode: 0 for none, 1 or 2."""
    if at + 1 < len(words) and _TWO_WORDS.match(f"{words[at]} {words[at + 1]}".upper()):
        return 2
    word = words[at].upper()
    return int(_ONE_WORD.match(word) is not None or _prefix(word) is not None)


def read_postcode(text: str, *, leads: bool) -> Postcode:
    """What a text that is a postcode says."""
    text = text.upper()
    prefix = _prefix(text)
    code = text.split("-", 1)[1] if prefix else text
    fitting = [country for country, pattern in _patterns().items() if pattern.fullmatch(code)]
    return Postcode(code, prefix, fitting, leads)


def regions_of(postcode: Postcode, country: str) -> frozenset[str] | None:
    """The regions of the country the postcode belongs to, as far as it tells; nothing where it does not."""
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
