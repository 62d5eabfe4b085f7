"""Clocks: the store's and that of this machine."""

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, fine, odd, wrong
from langlauf.doctor.patient import Patient
from langlauf.domain.instant import seconds_between

_APART_SECONDS = 2.0
_FAR_APART_SECONDS = 60.0


def clock(patient: Patient) -> Seen:
    seen = patient.clock
    apart = seconds_between(seen.machine, seen.store)
    words = f"the store is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this machine"
    limit = max(_APART_SECONDS, patient.settings.lease_seconds / 10) + seen.doubt_seconds
    if abs(apart) > _FAR_APART_SECONDS:
        return wrong(words, "timedatectl status")
    return odd(words, "timedatectl status") if abs(apart) > limit else fine(words)


CHECKS = (
    Check(
        "clock",
        Needs.ROWS,
        "The store's clock and this machine's are no more than 2 s or a tenth of a lease apart; a minute is an error.",
        clock,
    ),
)
