"""On which kind of file system a path lies. A write-ahead log needs shared memory, which a network does not have."""

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")
#: File systems over a network, on which SQLite's log and locks cannot be relied on.
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "9p", "gpfs", "beegfs"}
)
#: What comes through a program of its own: it may be local or not.
_THROUGH_PROGRAM = ("fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.cephfs", "fuse.rclone", "fuse.gcsfuse")


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The kind of the file system, as the system calls it; `unknown` where the system does not tell."""
    try:
        text = _MOUNTS.read_text("utf-8") if mounts is None else mounts
    except OSError:
        return "unknown"
    where, best, kind = path.absolute().resolve(), -1, "unknown"
    for line in text.splitlines():
        _, place, name, *_ = line.split(" ")
        folder = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), place))
        # The last one at a place lies over the others.
        if where.is_relative_to(folder) and len(folder.parts) >= best:
            best, kind = len(folder.parts), name
    return kind


def over_network(kind: str) -> bool:
    """Whether such a file system is one over a network."""
    return kind in NETWORK or kind in _THROUGH_PROGRAM
