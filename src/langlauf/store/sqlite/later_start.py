"""Jobs that wait for their time: they enter the line when it has come, and end where they did not start in time."""

import msgspec

from langlauf.domain.attempt import Lease
from langlauf.domain.job import TOO_LATE
from langlauf.domain.outcome import Canceled
from langlauf.domain.read_models import SweptJob
from langlauf.store.sqlite.end import end_canceled
from langlauf.store.sqlite.transaction import Transaction

#: Lanes, jobs of one of them, and late jobs that one transaction handles: the rest is left to the next.
_MOST_LANES = 100
_MOST_JOBS = 100
_MOST_LATE = 100


class SettleTimes(msgspec.Struct, frozen=True):
    """Does what is due without a claim: all slots may be taken, or no worker may be there."""


def settle_times(tx: Transaction, _: SettleTimes | None = None) -> list[SweptJob]:
    """Cancel what should have started by now, and let into the line what may start; mostly there is neither."""
    late = [one for one in tx.rows("late_jobs", now=tx.now, most=_MOST_LATE) if _cancel(tx, *one)]
    lanes = tx.rows("lanes_to_run", now=tx.now, lanes=_MOST_LANES)
    for org, analysis in lanes:
        _enter_line(tx, org, analysis)
    if late or lanes:
        tx.flush()
    for org, analysis in lanes:
        tx.run("lane_next_run", org=org, analysis=analysis)
    return [SweptJob(tx.org_id(org), job_id, "canceled") for org, job_id in late]


def _cancel(tx: Transaction, org: int, job_id: str) -> bool:
    held = tx.fenced(Lease(tx.org_id(org), job_id, 0))
    return end_canceled(tx, held, Canceled(by="system", reason=TOO_LATE), actor="system", unheld=True)


def _enter_line(tx: Transaction, org: int, analysis: int) -> None:
    """Give tickets to the jobs of a lane whose time has come, in the order of their times."""
    lane = {"org": org, "analysis": analysis, "now": tx.now, "most": _MOST_JOBS}
    due = [row for expedite in (1, 0) for row in tx.rows("jobs_to_run", **lane, expedite=expedite)]
    entered = [(job, tx.next_ticket(org, analysis, expedite)) for job, expedite, _ in due]
    if tx.run_many("enter_line", entered) != len(due):
        raise RuntimeError("a job was found that does not wait for its time")
    tx.scheduled(org, analysis, -len(due))
    tx.waiting(org, analysis, +len(due))
