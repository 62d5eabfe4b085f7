"""The places of one table in memory, with the ways to find them, and distances and directions on the globe."""

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import asin, atan2, ceil, cos, degrees, floor, log1p, pi, radians, sin, sqrt
from sys import intern
from threading import Lock
from typing import Final, Protocol

import msgspec

from langlauf.bundled.address.data import CityRow, cached_index, read_cities
from langlauf.bundled.address.text import TypoIndex, fold, fold_lines

# -- geometry ----------------------------------------------------------------------------------------------------------

EARTH_RADIUS_KM: Final = 6371.0088
KM_PER_DEGREE: Final = 111.195
COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def distance_km(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """Return the great-circle distance between two points (haversine formula, mean earth radius)."""
    phi_a, phi_b = radians(lat_a), radians(lat_b)
    half_lat = sin((phi_b - phi_a) / 2)
    half_lon = sin(radians(lon_b - lon_a) / 2)
    chord = half_lat * half_lat + cos(phi_a) * cos(phi_b) * half_lon * half_lon
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, chord)))


def bearing(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """Return the initial direction from the first point to the second, in degrees from north, 0 to under 360."""
    phi_a, phi_b, turn = radians(lat_a), radians(lat_b), radians(lon_b - lon_a)
    east = sin(turn) * cos(phi_b)
    north = cos(phi_a) * sin(phi_b) - sin(phi_a) * cos(phi_b) * cos(turn)
    return degrees(atan2(east, north)) % 360


def compass(direction: float) -> str:
    """Return the eighth of the compass a direction in degrees falls in."""
    return COMPASS[int((direction + 22.5) // 45) % 8]


def ring(lat: float, lon: float, radius_km: float, corners: int = 72) -> list[tuple[float, float]] | None:
    """Return a closed circle of (longitude, latitude), or None if it would cross a pole or the date line."""
    phi, reach = radians(lat), radius_km / EARTH_RADIUS_KM
    if abs(phi) + reach >= pi / 2:
        return None
    points = []
    for corner in range(corners):
        turn = 2 * pi * corner / corners
        at = asin(sin(phi) * cos(reach) + cos(phi) * sin(reach) * cos(turn))
        east = atan2(sin(turn) * sin(reach) * cos(phi), cos(reach) - sin(phi) * sin(at))
        points.append((round(lon + degrees(east), 5), round(degrees(at), 5)))
    return [*points, points[0]] if all(-180 <= point[0] <= 180 for point in points) else None  # noqa: PLR2004


def mean_centre(points: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the weighted centre of (latitude, longitude, weight) points on the globe; nothing without weight."""
    x = y = z = 0.0
    for lat, lon, weight in points:
        phi, lam = radians(lat), radians(lon)
        x += weight * cos(phi) * cos(lam)
        y += weight * cos(phi) * sin(lam)
        z += weight * sin(phi)
    if x == y == z == 0.0:
        return None
    return degrees(atan2(z, sqrt(x * x + y * y))), degrees(atan2(y, x))


_PER_DEGREE: Final = 2
_COLUMNS: Final = 360 * _PER_DEGREE
_POLE: Final = 89.5
_RADII: Final = (10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0, 20100.0)


class SpatialIndex:
    """Points on the globe, looked up by distance; a point is known by its position in the sequence given."""

    __slots__ = ("_cells", "_points")

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self._points = points
        self._cells: dict[int, array[int]] = {}
        for index, (lat, lon) in enumerate(points):
            self._cells.setdefault(_cell(_row(lat), _column(lon)), array("I")).append(index)

    def within(self, lat: float, lon: float, radius_km: float) -> list[tuple[float, int]]:
        """Return every point at most `radius_km` away, as (distance, index), nearest first."""
        span = radius_km / KM_PER_DEGREE
        found: list[tuple[float, int]] = []
        for cell in self._cells_around(lat, lon, span):
            for index in self._cells.get(cell, ()):
                point = self._points[index]
                if abs(point[0] - lat) <= span:
                    distance = distance_km(lat, lon, *point)
                    if distance <= radius_km:
                        found.append((distance, index))
        found.sort()
        return found

    def nearest(self, lat: float, lon: float, count: int, accept: Callable[[int], bool]) -> list[tuple[float, int]]:
        """Return the `count` nearest accepted points as (distance, index), nearest first; fewer if there are fewer."""
        found: list[tuple[float, int]] = []
        for radius in _RADII:
            found = [hit for hit in self.within(lat, lon, radius) if accept(hit[1])]
            if len(found) >= count:
                break
        return found[:count]

    def _cells_around(self, lat: float, lon: float, span: float) -> list[int]:
        rows = range(_row(max(-90.0, lat - span)), _row(min(90.0, lat + span)) + 1)
        edge = abs(lat) + span
        if edge >= _POLE:
            return [_cell(row, column) for row in rows for column in range(_COLUMNS)]
        # The circle is widest in degrees of longitude on its poleward side.
        reach = min(_COLUMNS // 2, ceil(span / cos(radians(edge)) * _PER_DEGREE))
        middle = _column(lon)
        columns = {(middle + step) % _COLUMNS for step in range(-reach, reach + 1)}
        return [_cell(row, column) for row in rows for column in columns]


def _row(lat: float) -> int:
    return floor((lat + 90) * _PER_DEGREE)


def _column(lon: float) -> int:
    return floor((lon + 180) * _PER_DEGREE) % _COLUMNS


def _cell(row: int, column: int) -> int:
    return row * _COLUMNS + column


# -- gazetteer ---------------------------------------------------------------------------------------------------------

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
                index = cached_index(table, GazetteerIndex, lambda: build_index(read_cities(table)))
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
