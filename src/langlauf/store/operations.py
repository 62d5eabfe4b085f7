"""What writers are asked to do that is no value of the domain by itself."""

import msgspec

from langlauf.domain.attempt import Lease, Write


class Recording(msgspec.Struct, frozen=True):
    """A write of an attempt under its lease."""

    lease: Lease
    write: Write


def letters_of(operation: object) -> int:
    """How long the payload of a write is, about: nothing where it has none."""
    payload = getattr(operation.write if isinstance(operation, Recording) else operation, "payload", None)
    return len(payload) if isinstance(payload, str) else 0
