"""Messages to the outside: sent when they are due, to endpoints that take them."""

from langlauf.doctor.check import Check, Needs
from langlauf.doctor.findings import Seen, ago, fine, odd, wrong
from langlauf.doctor.patient import Patient
from langlauf.domain.instant import seconds_between

_LATE_SECONDS, _TOO_LATE_SECONDS = 60.0, 900.0
_MANY = 10_000


def overdue(patient: Patient) -> Seen:
    seen = patient.examiner.deliveries(patient.now)
    late = 0.0 if seen.oldest_due is None else seconds_between(seen.oldest_due, patient.now)
    words = f"{seen.pending} wait" + (f"; the oldest that is due, for {ago(late)}" if late > _LATE_SECONDS else "")
    if late > _TOO_LATE_SECONDS:
        return wrong(words, "langlauf serve --deliveries 8")
    return odd(words, "langlauf serve --deliveries 8") if late > _LATE_SECONDS or seen.pending > _MANY else fine(words)


def endpoints(patient: Patient) -> Seen:
    seen = patient.examiner.deliveries(patient.now)
    found = [
        f"{count} {what}"
        for count, what in (
            (seen.paused_lanes, "receivers are left in peace after failures"),
            (seen.disabled_endpoints, "endpoints are switched off"),
        )
        if count
    ]
    return odd("; ".join(found), "langlauf webhooks list --org ORG") if found else fine("all are told")


CHECKS = (
    Check(
        "deliveries",
        Needs.ROWS,
        "No message has been due for a minute (15 minutes are an error), and fewer than 10,000 wait.",
        overdue,
    ),
    Check("endpoints", Needs.ROWS, "No endpoint is switched off, and no receiver is paused after failures.", endpoints),
)
