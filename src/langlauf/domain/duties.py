"""What upkeep is for: each duty by name, and when it last did it."""

from collections.abc import Iterable

import msgspec

from langlauf.domain.instant import Instant, seconds_between

SWEEP_DUTY = "sweep"
RETENTION_DUTY = "retention"
DELIVERY_DUTY = "deliveries"
#: noted by processes that have a mail server alone
MAIL_DUTY = "mail"
#: A process that sends mail is counted on for so many seconds after its last note: it may be starting again.
MAIL_EXPECTED_SECONDS = 300.0


def mail_sender_alive(done: Iterable["DutySuccess"], now: Instant) -> bool:
    """Whether some process that has a mail server is there, or was a moment ago."""
    return any(one.name == MAIL_DUTY and seconds_between(one.succeeded_at, now) < MAIL_EXPECTED_SECONDS for one in done)


#: No duty, but a write that tells whether a database takes any.
WRITE_PROBE = "write probe"


class DutySuccess(msgspec.Struct, frozen=True):
    """The last success of a duty, on whichever host."""

    name: str
    succeeded_at: Instant
    host: str
