"""Where a store is: every way to write it, and what is refused."""

from pathlib import Path

import pytest

from langlauf.domain.errors import SettingsError
from langlauf.settings import DEFAULT_STORE
from langlauf.store.tools import location
from langlauf.store.tools.location import PostgresLocation, SqliteLocation, parse_location, resolve_sqlite_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("memory://", ":memory:"),
        (":memory:", ":memory:"),
        ("jobs.db", "jobs.db"),
        ("/data/jobs.db", "/data/jobs.db"),
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:////data/jobs.db", "/data/jobs.db"),
        ("SQLite:////data/a b.db", "/data/a b.db"),
        ("jobs", "jobs"),
        ("jobs.json", "jobs.db"),
        ("sqlite:////data/store.v1.json", "/data/store.v1.db"),
        ("/data/STORE.JSON", "/data/STORE.db"),
    ],
)
def test_a_place_is_understood(text: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths, URLs and names of the earlier system lead to the SQLite file; nothing is imported that is not there."""
    monkeypatch.chdir(tmp_path)
    assert resolve_sqlite_path(text) == (path, None)


@pytest.mark.parametrize(
    "text",
    ["mysql://me:hunter22@db/jobs", "mysql://db", "file:///jobs.db", "", " ", "sqlite://jobs.db", "sqlite:///"],
)
def test_what_cannot_be_opened_is_refused(text: str) -> None:
    """An unknown scheme or a missing name is refused with what may be written instead, and without a password."""
    with pytest.raises(SettingsError, match="sqlite:///path") as refused:
        resolve_sqlite_path(text)
    assert "hunter22" not in str(refused.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder is not a store."""
    with pytest.raises(SettingsError, match="folder"):
        resolve_sqlite_path(str(tmp_path))


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tilde stands for the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_sqlite_path("~/jobs.db") == (str(tmp_path / "jobs.db"), None)


def test_a_json_store_that_exists_is_to_be_imported(tmp_path: Path) -> None:
    """The JSON store is named beside its database, also where that one exists: the database knows what it has."""
    earlier = tmp_path / "jobs.json"
    earlier.write_text("{}")
    assert resolve_sqlite_path(str(earlier)) == (str(tmp_path / "jobs.db"), earlier)
    (tmp_path / "jobs.db").touch()
    assert resolve_sqlite_path(str(earlier)) == (str(tmp_path / "jobs.db"), earlier)


def test_a_database_does_not_bring_its_neighbour(tmp_path: Path) -> None:
    """Only the default store imports a JSON file that was not named."""
    (tmp_path / "jobs.json").write_text("{}")
    assert resolve_sqlite_path(str(tmp_path / "jobs.db")) == (str(tmp_path / "jobs.db"), None)


def test_the_default_store_takes_over_its_predecessor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the default path the JSON store is imported where no database is there yet, and never later."""
    monkeypatch.chdir(tmp_path)
    default = Path(DEFAULT_STORE)
    default.parent.mkdir(parents=True)
    assert resolve_sqlite_path(DEFAULT_STORE) == (DEFAULT_STORE, None)
    earlier = default.with_suffix(".json")
    earlier.write_text("{}")
    assert resolve_sqlite_path(DEFAULT_STORE) == (DEFAULT_STORE, earlier)
    default.touch()
    assert resolve_sqlite_path(DEFAULT_STORE) == (DEFAULT_STORE, None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/jobs", "postgresql://db/jobs"),
        ("postgres://me:hunter22@db:5433/jobs?sslmode=require", "postgresql://db:5433/jobs"),
        ("postgresql://me:hunter%2F22@one:1,two:2/jobs", "postgresql://one:1,two:2/jobs"),
        ("postgresql://me:hunter22@[::1]:5432/jobs", "postgresql://[::1]:5432/jobs"),
        ("PostgreSQL://me@db", "postgresql://db/"),
        ("postgresql:///jobs?host=/run/postgresql&password=hunter22", "postgresql:///run/postgresql/jobs"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, shown: str) -> None:
    """Its host and its name are shown, also where the place is printed as a value; the URL stays as it was given."""
    place = parse_location(url)
    assert isinstance(place, PostgresLocation)
    assert (place.url, place.shown, repr(place)) == (url, shown, shown)
    assert "hunter" not in f"{place} {place!r} {[place]}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter22/x@db/jobs",
        "postgresql://me:22/hunter@db/jobs",
        "postgresql://me:hunter22#x@db/jobs",
        "postgresql://me:22?hunter@db/jobs",
        "postgresql://db:hunter22/jobs",
        "postgresql://db:123456/jobs",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    """A password with a slash in it would be taken for a host: it is refused, and no part of it is told."""
    with pytest.raises(SettingsError, match="cannot be read") as refused:
        parse_location(url)
    assert not any(part in str(refused.value) for part in ("hunter", "22", "123456"))


def test_a_database_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver comes with an extra."""
    monkeypatch.setattr(location, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'langlauf\[postgres\]'"):
        parse_location("postgresql://db/jobs")
    assert parse_location("jobs.db") == SqliteLocation("jobs.db", None)
