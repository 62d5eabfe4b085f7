"""Which words of an address are its street."""

import re
from typing import Final, NamedTuple

from .text import fold

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


class Split(NamedTuple):
    """The words of a street, and the words after it."""

    street: list[str]
    rest: list[str]


def is_house_number(word: str) -> bool:
    """Whether the word looks like a house number: figures, perhaps a range, perhaps a letter."""
    return HOUSE_NUMBER.match(word) is not None


def split_street(words: list[str]) -> Split | None:
    """Where the street ends in these words, told by words such as `rue` and `street`; nothing without such a word."""
    for at, word in enumerate(words):
        folded = fold(word)
        if _ends_street(words, at, folded):
            end = at + 1
            while end < len(words) and (is_house_number(words[end]) or fold(words[end]) in _COMPASS):
                end += 1
            return Split(words[:end], words[end:])
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


def _split_after_number(words: list[str], marker: int) -> Split:
    for end in range(marker + 1, len(words)):
        if is_house_number(words[end]):
            return Split(words[: end + 1], words[end + 1 :])
    return Split(words, [])
