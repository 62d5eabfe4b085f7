"""The index of a table is built once, and read from a file that can be trusted or is built again."""

from pathlib import Path

import pytest

from langlauf.bundled.address.data import cached_index, read_cities
from langlauf.bundled.address.gazetteer import Gazetteer, GazetteerIndex, build_index


def test_it_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process reads what the first wrote, and a file that is damaged or cannot be written is no error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built: list[GazetteerIndex] = []

    def build() -> GazetteerIndex:
        built.append(build_index(row for row in read_cities("15000") if row.countrycode == "CH"))
        return built[-1]

    first, second = (cached_index("15000", GazetteerIndex, build) for _ in range(2))
    assert len(built) == 1
    assert second == first
    bern = Gazetteer("15000", second).named("bern")[0]
    assert second.places[bern].name == "Bern"
    [file] = (tmp_path / "cache" / "langlauf").iterdir()
    file.write_bytes(b"\x93\x01damaged")
    assert cached_index("15000", GazetteerIndex, build) == first
    assert len(built) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-such-folder")
    assert cached_index("15000", GazetteerIndex, build) == first
    assert len(built) == 3
