"""What writers are asked to do that is no value of the domain by itself."""

import msgspec

from langlauf.domain.attempt import Lease, Write


class Recording(msgspec.Struct, frozen=True):
    """A write of an attempt under its lease."""

    lease: Lease
    write: Write
