"""Countries and regions that an address names, by name or by code."""

from collections.abc import Iterator
from functools import cache

import msgspec

from .cantons import CANTONS
from .country_names import COUNTRY_NAMES
from .data import countries, us_states
from .region_names import REGION_NAMES
from .text import fold

_LONGEST_NAME = 6


class Meaning(msgspec.Struct, frozen=True):
    """A country, or a region of it, that a text may stand for."""

    country: str
    region: str | None = None


class Hint(msgspec.Struct, frozen=True):
    """Words of the address, `part` and `start` to `end` in it, that name one of several countries or regions.

    A name written out is sure; a code of two or three letters is not, since many stand for several.
    """

    text: str
    part: int
    start: int
    end: int
    sure: bool
    meanings: list[Meaning]


def find_hints(part: int, words: list[str]) -> list[Hint]:
    """The hints in one part of an address, longest names first, no two over the same words."""
    found: list[Hint] = []
    taken: set[int] = set()
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            span = range(start, start + length)
            if taken.isdisjoint(span) and (hint := _hint(part, words, start, start + length)):
                found.append(hint)
                taken.update(span)
    return found


def _hint(part: int, words: list[str], start: int, end: int) -> Hint | None:
    text = " ".join(words[start:end])
    if meanings := _names().get(fold(text)):
        return Hint(text, part, start, end, True, list(meanings))
    # Small words such as `in`, `de` and `la` are codes too, but only where an address ends with them.
    alone = len(words) == 1
    closing = end == len(words) and text.isupper()
    if end - start == 1 and (alone or closing) and (meanings := _codes().get(text.upper().replace(".", ""))):
        return Hint(text, part, start, end, False, list(meanings))
    return None


@cache
def _names() -> dict[str, tuple[Meaning, ...]]:
    names: dict[str, list[Meaning]] = {}
    for name, meaning in [*_country_names(), *_canton_names(), *_region_names()]:
        known = names.setdefault(fold(name), [])
        if meaning not in known:
            known.append(meaning)
    return {name: tuple(meanings) for name, meanings in names.items()}


def _country_names() -> Iterator[tuple[str, Meaning]]:
    for code, country in countries().items():
        for name in (country.name, *COUNTRY_NAMES.get(code, ())):
            yield name, Meaning(code)


def _canton_names() -> Iterator[tuple[str, Meaning]]:
    for code, canton in CANTONS.items():
        for name in canton:
            for written in (name, f"Kanton {name}", f"Canton {name}", f"Canton de {name}", f"Cantone {name}"):
                yield written, Meaning("CH", code)


def _region_names() -> Iterator[tuple[str, Meaning]]:
    for state in us_states().values():
        yield state.name, Meaning("US", state.code)
    for country, regions in REGION_NAMES.items():
        for code, names in regions.items():
            for name in names:
                if not _is_code(name):
                    yield name, Meaning(country, code)


@cache
def _codes() -> dict[str, tuple[Meaning, ...]]:
    codes: dict[str, list[Meaning]] = {}
    for code, country in countries().items():
        codes.setdefault(code, []).append(Meaning(code))
        codes.setdefault(country.iso3, []).append(Meaning(code))
    for canton in CANTONS:
        codes.setdefault(canton, []).append(Meaning("CH", canton))
    for state in us_states():
        codes.setdefault(state, []).append(Meaning("US", state))
    for country_code, regions in REGION_NAMES.items():
        for code, written_names in regions.items():
            for name in filter(_is_code, written_names):
                codes.setdefault(name, []).append(Meaning(country_code, code))
    return {code: tuple(meanings) for code, meanings in codes.items()}


def _is_code(name: str) -> bool:
    return name.isupper() and name.isascii()
