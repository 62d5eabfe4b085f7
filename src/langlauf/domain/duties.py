"""What upkeep is for: each duty by name, and when it last did it."""

import msgspec

from langlauf.domain.instant import Instant

SWEEP = "sweep"
RETENTION = "retention"
DELIVERIES = "deliveries"
#: No duty, but a write that tells whether a database takes any.
PROBE = "write probe"


class DutyDone(msgspec.Struct, frozen=True):
    """The last success of a duty, on whichever host."""

    name: str
    succeeded_at: Instant
    host: str
