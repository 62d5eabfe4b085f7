"""The places of one table in memory, with the ways to find them. It is made once and never changed."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log1p, pi, sqrt
from sys import intern
from threading import Lock
from typing import Final, Protocol

import msgspec

from langlauf.bundled.address.data import CityRow, read_cities
from langlauf.bundled.address.geometry import SpatialIndex
from langlauf.bundled.address.index_file import cached
from langlauf.bundled.address.text import TypoIndex, fold, fold_lines

# Other names of small places are too many and too odd to be guessed at from a misspelling.
_OTHER_NAMES_MISSPELT_FROM: Final = 100_000
# The other names include airport codes, which are no likely misspelling.
_CODE_LENGTH: Final = 3
_APART: Final = re.compile(r" \(| (?:am|an der|im|in der|ob der) ")


class GazetteerPlace(msgspec.Struct, frozen=True, gc=False):
    """One place of the gazetteer."""

    id: int
    name: str
    lat: float
    lon: float
    country: str
    population: int
    timezone: str
    region: str
    packed_names: bytes

    @property
    def other_names(self) -> list[str]:
        """The alternate names, in the gazetteer's order."""
        return self.packed_names.decode().split("\n") if self.packed_names else []

    @property
    def renown(self) -> float:
        """How widely the place is known, by the number of names it has: natural logarithm of one more than that."""
        return log1p(self.packed_names.count(b"\n") + bool(self.packed_names))


class GazetteerIndex(msgspec.Struct, frozen=True):
    """What takes long to compute from a table: its places in order, their folded names, and parts of larger ones."""

    places: list[GazetteerPlace]
    names: dict[str, int | tuple[int, ...]]
    misspelt: list[str]
    parts: dict[int, int]


def build_index(rows: Iterable[CityRow]) -> GazetteerIndex:
    """Return the index of a table; a place's index is its rank by population in the world."""
    places = sorted(map(_place, rows), key=lambda place: (-place.population, place.id))
    names, misspelt = _index_names(places)
    return GazetteerIndex(places, names, list(misspelt), find_parts(places, _grid(places)))


def _grid(places: Sequence[GazetteerPlace]) -> SpatialIndex:
    return SpatialIndex([(place.lat, place.lon) for place in places])


class Gazetteer:
    """All places of one table, largest first."""

    def __init__(self, table: str, index: GazetteerIndex) -> None:
        self.table = table
        self.places = index.places
        self.parts = index.parts
        self._names = index.names
        self._misspelt = index.misspelt
        self._by_id = {place.id: number for number, place in enumerate(self.places)}
        self.grid = _grid(self.places)
        self.by_country: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            self.by_country.setdefault(place.country, []).append(number)

    @cached_property
    def _typos(self) -> TypoIndex:
        return TypoIndex(self._misspelt)

    def index_of(self, place_id: int) -> int:
        """Return the index of the place with this GeoNames number; KeyError if the table has none."""
        return self._by_id[place_id]

    def named(self, folded: str) -> tuple[int, ...]:
        """Return the places that have this folded name, as their first name or as another one, largest first."""
        found = self._names.get(folded, ())
        return (found,) if isinstance(found, int) else found

    def nearly_named(self, folded: str) -> list[tuple[int, str]]:
        """Return the names that differ from this one by few typing errors, as (errors, name), best first."""
        return self._typos.near(folded)

    def independent(self, indexes: Iterable[int]) -> list[int]:
        """Return these places without those that are probably parts of a larger one."""
        return [index for index in indexes if index not in self.parts]


def first_names(name: str) -> list[str]:
    """Return the folded main spellings of a place: whole, each side of a slash, and without its distinguishing suffix.

    The suffix is a bracket or, as in `Frankfurt am Main`, the river or region.
    """
    written = [name]
    if "/" in name:
        written += name.split("/")
    elif match := _APART.search(name):
        written.append(name[: match.start()])
    return [folded for folded in map(fold, written) if folded]


def _place(row: CityRow) -> GazetteerPlace:
    return GazetteerPlace(
        id=row.geonameid,
        name=row.name,
        lat=row.latitude,
        lon=row.longitude,
        country=intern(row.countrycode),
        population=row.population,
        timezone=intern(row.timezone),
        region=intern(row.admin1code),
        packed_names="\n".join(row.alternatenames).encode(),
    )


def _index_names(places: list[GazetteerPlace]) -> tuple[dict[str, int | tuple[int, ...]], dict[str, None]]:
    """Return the places by folded name, and the names that are also looked for when one is misspelt."""
    # Most names belong to one place, and a bare number is far smaller than a tuple of one.
    names: dict[str, int | tuple[int, ...]] = {}
    misspelt: dict[str, None] = {}
    for index, place in enumerate(places):
        own = set(first_names(place.name))
        misspelt.update(dict.fromkeys(own))
        others = fold_lines("\n".join(name for name in place.other_names if not _is_transcription(name)))
        if place.population >= _OTHER_NAMES_MISSPELT_FROM:
            misspelt.update((name, None) for name in others if name.isascii() and len(name) > _CODE_LENGTH)
        own.update(others)
        own.discard("")
        for name in own:
            known = names.get(name)
            if known is None:
                names[name] = index
            else:
                names[name] = (*known, index) if isinstance(known, tuple) else (known, index)
    misspelt.pop("", None)
    return names, misspelt


def _is_transcription(name: str) -> bool:
    # The table writes machine transcriptions of other scripts in small letters; they collide with real names.
    return name.islower() and name[0].isascii()


_loaded: dict[str, Gazetteer] = {}
_loading = Lock()


def is_loaded(table: str) -> bool:
    """Whether this process has loaded a table."""
    return table in _loaded


def load(table: str) -> Gazetteer:
    """Return the gazetteer of a table, loaded once per process; concurrent callers wait for the same load."""
    found = _loaded.get(table)
    if found is None:
        with _loading:
            found = _loaded.get(table)
            if found is None:
                index = cached(table, GazetteerIndex, lambda: build_index(read_cities(table)))
                found = _loaded[table] = Gazetteer(table, index)
    return found


PEOPLE_PER_KM2: Final = 8000
SMALLEST_WHOLE: Final = 50_000
_NAME_REACH: Final = 3.0


class _Located(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def lat(self) -> float: ...
    @property
    def lon(self) -> float: ...
    @property
    def country(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def population(self) -> int: ...


def footprint_radius_km(population: int) -> float:
    """Return the radius of the circle that many people would fill at the assumed density."""
    return sqrt(population / (pi * PEOPLE_PER_KM2))


def find_parts(places: Sequence[_Located], grid: SpatialIndex) -> dict[int, int]:
    """For every probable part the index of its whole; `places` come largest first."""
    parts: dict[int, int] = {}
    for whole, place in enumerate(places):
        if place.population < SMALLEST_WHOLE:
            break
        if whole in parts:
            continue
        radius = footprint_radius_km(place.population)
        for distance, index in grid.within(place.lat, place.lon, radius * _NAME_REACH):
            if index > whole and index not in parts and _belongs(places[index], place, distance <= radius):
                parts[index] = whole
    return parts


def _belongs(small: _Located, large: _Located, inside: bool) -> bool:
    if small.country != large.country or small.region != large.region:
        return False
    name = small.name
    return inside or (name.startswith(large.name) and not name[len(large.name) : len(large.name) + 1].isalpha())
