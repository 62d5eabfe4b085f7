"""Where a store is: turns what a person writes into the file to open, and the file to import before."""

import re
from pathlib import Path

from langlauf.domain.errors import SettingsError
from langlauf.settings import DEFAULT_STORE
from langlauf.store.sqlite.connection import MEMORY

SUPPORTED = "sqlite:///path, memory:// or a path"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://(.*)$", re.DOTALL)
_EARLIER = ".json"


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
    """The path in a text; None for a store in memory."""
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
    """A URL may hold a password: only its host is shown."""
    host = rest.rpartition("@")[2].partition("/")[0]
    return f"{scheme}://{host}/…"
