"""The index of a table as a file in the user's cache: built once per table and version, and read in a fraction of that.

It is msgpack with a fixed shape, so that a file that does not fit is built again, and nothing in it can run.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import msgspec

from langlauf.bundled.address.data import PACKAGE

T = TypeVar("T")
#: Raised when the content of the index changes.
_FORMAT = 1


def cached(table: str, kind: type[T], build: Callable[[], T]) -> T:
    """Return the index of a table from its file; build and write it where there is none that can be read."""
    path = _path(table)
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    made = build()
    with suppress(OSError):  # such as a home that is read-only: then every process builds its own
        _write(path, msgspec.msgpack.encode(made))
    return made


def _path(table: str) -> Path:
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        folder = Path(os.devnull)
    return folder / "langlauf" / f"address-{table}-{metadata.version(PACKAGE)}-{_FORMAT}.msgpack"


def _write(path: Path, content: bytes) -> None:
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
