"""The location of a store: a SQLite file or a PostgreSQL database, parsed from the setting."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from langlauf.domain.errors import SettingsError
from langlauf.settings import DEFAULT_STORE
from langlauf.store.sqlite.connection import MEMORY

SUPPORTED = "sqlite:///path, memory://, postgresql://user@host/database or a path"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)
_POSTGRES = ("postgresql", "postgres")
_HOSTS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:,\[\]]*)(?::[0-9]{1,5})?")
_EARLIER = ".json"


class SqliteLocation(NamedTuple):
    """A file, or `:memory:`, and the JSON store of the earlier system to import into it, if there is one."""

    path: str
    earlier: Path | None = None

    @property
    def shown(self) -> str:
        """How it is named to people."""
        return self.path


class PostgresLocation(NamedTuple):
    """A database on a server. The URL may hold a password, so it is never shown: its host and its database are."""

    url: str
    shown: str

    def __repr__(self) -> str:
        return self.shown


StoreLocation = SqliteLocation | PostgresLocation


def parse_location(text: str) -> StoreLocation:
    """Return the location that a text names."""
    match = _SCHEME.match(text)
    if match is None or match[1].lower() not in _POSTGRES:
        return SqliteLocation(*resolve_sqlite_path(text))
    if find_spec("asyncpg") is None:
        raise SettingsError("a store on PostgreSQL needs a driver: pip install 'langlauf[postgres]'")
    return PostgresLocation(text, shown_database(text))


def shown_database(url: str) -> str:
    """Return the host and the database of a URL, without who connects and how; a URL that cannot be read is refused.

    What is refused is not shown: it may be a password with a character in it that means something in a URL.
    """
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    if parts.fragment or "@" in parts.path + parts.query or not all(map(_HOSTS.fullmatch, hosts.split(","))):
        raise SettingsError(
            "the URL of the PostgreSQL database cannot be read: write postgresql://user:password@host:port/database, "
            "with / ? # @ : and % in a password as %2F %3F %23 %40 %3A %25"
        )
    asked = parse_qs(parts.query)
    host = hosts or ",".join(asked.get("host", ["local"]))
    database = unquote(parts.path.lstrip("/")) or ",".join(asked.get("database", asked.get("dbname", [""])))
    return f"postgresql://{host}/{database}"


def resolve_sqlite_path(text: str) -> tuple[str, Path | None]:
    """The SQLite file, or `:memory:`, and the JSON store of the earlier system to import into it, if there is one.

    `X.json` stands for `X.db` and is imported; a path after `sqlite:///` is relative unless it starts with a further
    slash. Whether an import was already made is known to the file, not here.
    """
    path_text = _path_of(text)
    if path_text is None:
        return MEMORY, None
    path = Path(path_text).expanduser()
    if path.is_dir():
        raise SettingsError(f"the store {text!r} is a folder: name a file in it")
    if path.suffix.lower() == _EARLIER:
        return str(path.with_suffix(".db")), path if path.exists() else None
    # Beside the default store, and only there, a store of the earlier system is found without being named.
    earlier = path.with_suffix(_EARLIER)
    if path.absolute() == Path(DEFAULT_STORE).absolute() and not path.exists() and earlier.exists():
        return str(path), earlier
    return str(path), None


def _path_of(text: str) -> str | None:
    """Return the path in a text; None for a store in memory."""
    if text in ("memory://", MEMORY):
        return None
    match = _SCHEME.match(text)
    if match is None:
        if not text.strip():
            raise SettingsError(f"the store has no name: give {SUPPORTED}")
        return text
    scheme, rest = match[1].lower(), match[2]
    if scheme != "sqlite":
        raise SettingsError(f"the store {_shown(scheme, rest)!r} is not supported: give {SUPPORTED}")
    if len(rest) < 2 or not rest.startswith("/"):  # noqa: PLR2004 - the slash and at least a letter
        raise SettingsError(f"the store {text!r} names no file: write sqlite:///path, with three slashes")
    return rest[1:]


def _shown(scheme: str, rest: str) -> str:
    """Show the host only: the URL may hold a password."""
    host = rest.rpartition("@")[2].partition("/")[0]
    return f"{scheme}://{host}/…"
