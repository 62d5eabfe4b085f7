"""What writers are asked to do that is no value of the domain by itself."""

import msgspec

from langlauf.domain.attempt import Lease, Write
from langlauf.domain.job import NewJob


class Recording(msgspec.Struct, frozen=True):
    """A write of an attempt under its lease."""

    lease: Lease
    write: Write


def org_of(operation: object) -> str:
    """The org that a write is for; empty where it is for none, or for several."""
    if isinstance(operation, Recording):
        return operation.lease.org_id
    return operation.job.org_id if isinstance(operation, NewJob) else getattr(operation, "org_id", None) or ""


def letters_of(operation: object) -> int:
    """How long the payload of a write is, about: nothing where it has none."""
    payload = getattr(operation.write if isinstance(operation, Recording) else operation, "payload", None)
    return len(payload) if isinstance(payload, str) else 0
