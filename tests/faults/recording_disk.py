"""A file system that remembers what was really synchronised, so that a test can pull the plug.

SQLite calls it for every write and every sync. What was written but not synchronised is lost at the power cut, as far
as anybody may rely on it.
"""

import threading
from pathlib import Path
from typing import Any

import apsw


class Disk(apsw.VFS):
    """Passes everything to the real file system, and keeps each file as it was at its last sync."""

    def __init__(self) -> None:
        super().__init__("remembering-disk", "unix", makedefault=True)
        self.lock = threading.Lock()
        self.synced: dict[str, bytes] = {}
        self.happened: list[str] = []

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name for it
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name for it
        super().xDelete(filename, syncdir)
        with self.lock:
            self.synced.pop(filename, None)

    def record_event(self, what: str) -> None:
        """Record an event of the test among those of the disk."""
        with self.lock:
            self.happened.append(what)

    def after_power_cut(self, folder: Path) -> None:
        """Write what a power cut would leave into another folder."""
        folder.mkdir(parents=True)
        with self.lock:
            for name, content in self.synced.items():
                (folder / Path(name).name).write_bytes(content)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name for it
        super().xSync(flags)
        content = Path(self._path).read_bytes()
        with self._disk.lock:
            self._disk.synced[self._path] = content
            self._disk.happened.append(f"sync {Path(self._path).suffix}")
