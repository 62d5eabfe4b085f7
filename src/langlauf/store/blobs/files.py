"""Blobs as files: written under another name, synced, and renamed when complete."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from langlauf.clock import new_id
from langlauf.domain.errors import SettingsError, StoreUnavailable
from langlauf.store.blobs.protocol import KEYS_PER_PAGE, Listed

T = TypeVar("T")
_WORD = re.compile(r"[a-z0-9_=-][a-z0-9_=.-]*")
_OURS_ALONE = 0o700
_THREADS = 4
_PIECE = 1_048_576


class FileBlobs:
    """One file per blob under a root of its own. Symbolic links are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Not the threads of the event loop: analyses may occupy all of them.
        self._threads = ThreadPoolExecutor(_THREADS, "langlauf-blobs")

    async def put(self, key: str, data: bytes | memoryview) -> None:
        await self._aside(lambda: self._write(self._path(key), data))

    async def get(self, key: str, *, at_most: int) -> bytes | None:
        return await self._aside(lambda: _read(self._path(key), at_most + 1))

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:
        return await self._aside(lambda: _read(self._path(key), length, start=start))

    async def delete(self, keys: Sequence[str]) -> None:
        await self._aside(lambda: _remove([self._path(key) for key in keys]))

    async def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        found = self._walk(self._path(prefix), prefix)
        while page := await self._aside(lambda: list(islice(found, KEYS_PER_PAGE))):
            yield page

    async def check(self) -> None:
        try:
            await self._aside(self._make_root)
        except StoreUnavailable as error:
            raise SettingsError(f"LANGLAUF_BLOBS: {error}") from error

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    async def _aside(self, do: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, do)
        except OSError as error:
            raise StoreUnavailable(f"the folder {self._root} does not do: {error}") from error

    def _path(self, key: str) -> Path:
        """Return every word is checked once more here: no key leads out of the root."""
        words = key.split("/")
        if not all(_WORD.fullmatch(word) for word in words):
            raise ValueError(f"{key!r} is no key of a blob")
        return self._root.joinpath(*words)

    def _make_root(self) -> None:
        self._root.mkdir(_OURS_ALONE, parents=True, exist_ok=True)
        probe = self._root / f".{new_id()}"
        probe.touch(0o600)
        probe.unlink()
        # The folder entry must survive a power cut too; a folder without read access was not created here.
        with contextlib.suppress(PermissionError):
            _synchronise(self._root.parent)

    def _write(self, path: Path, data: bytes | memoryview) -> None:
        self._root.mkdir(_OURS_ALONE, parents=True, exist_ok=True)
        folders = [folder for folder in path.parents if folder.is_relative_to(self._root)]
        for folder in reversed(folders[:-1]):
            folder.mkdir(_OURS_ALONE, exist_ok=True)
        making = path.with_name(f"{path.name}.{new_id()}")
        try:
            _write_through(making, data)
            making.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                making.unlink()
            raise
        # Up to the root: another thread may have created a folder without having synced it yet.
        for folder in folders:
            _synchronise(folder)

    def _walk(self, folder: Path, key: str) -> Iterator[Listed]:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if not _WORD.fullmatch(entry.name):
                    continue
                name = f"{key}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(folder / entry.name, name)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        yield Listed(name, entry.stat(follow_symlinks=False).st_mtime)


def _write_through(path: Path, data: bytes | memoryview) -> None:
    """Write in pieces that are on disk before the next: a commit of the store that needs the disk waits for one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left[:_PIECE]) or 0 :]
            os.fsync(file.fileno())


def _synchronise(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path, length: int, *, start: int = 0) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        file.seek(start)
        return file.read(length)


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        # Not empty, or gone already: both are fine.
        with contextlib.suppress(OSError):
            folder.rmdir()
