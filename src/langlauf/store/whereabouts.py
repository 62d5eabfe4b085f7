"""Where a store is: what tells it from a copy of itself."""

from typing import NamedTuple


class Whereabouts(NamedTuple):
    """Two ways to say where a store is. A store that is the same by either of them is the same store."""

    #: as people know it: the host and the path of a file, or the name and the server of a database
    place: str
    #: as the system knows it: the path and the inode of a file, or the numbers of a database and its server
    mark: str
