"""The store with one guard less. Every guard of every statement stands in one of the three tables at the end.

A mutant changes the text of `writes.sql`; a text that is no longer there is an error, so no table can go stale.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from langlauf.store.sqlite.driver import _FENCE
from tests.simulation.world import statements


class Edit(NamedTuple):
    """A statement in which one text stands for another."""

    statement: str
    old: str
    new: str

    def applied_to(self, queries: Mapping[str, str]) -> dict[str, str]:
        """All statements, with this one altered. Any white space in the text fits any other."""
        sql = queries[self.statement]
        pattern = r"\s+".join(map(re.escape, self.old.split()))
        assert len(re.findall(pattern, sql)) == 1, f"{self.statement} must have exactly one {self.old!r}"
        return {**queries, self.statement: re.sub(pattern, lambda _: self.new, sql)}


#: For each mutant a schedule that shows it: `python -m tests.simulation --sqlite-mutants` writes them.
SEEDS_FILE = Path(__file__).with_name("mutant_seeds.json")


def kept_seeds() -> dict[str, int]:
    """Return the seeds by the names of the mutants."""
    seeds: dict[str, int] = json.loads(SEEDS_FILE.read_text("utf-8"))
    return seeds


class Mutant(NamedTuple):
    """A weaker store, and the guard that it lacks; None where it is another promise that is broken."""

    name: str
    edits: tuple[Edit, ...]
    guard: tuple[str, str] | None = None

    def queries(self) -> dict[str, str]:
        """The statements of the weaker store."""
        return altered(self.edits)


class Redundant(NamedTuple):
    """A guard that another one stands before. Without both it shows that each of them holds alone."""

    mutant: Mutant
    company: Mutant
    why: str

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.mutant.name}, {self.company.name}"

    def queries(self) -> dict[str, str]:
        """The statements without both guards."""
        return altered((*self.mutant.edits, *self.company.edits))


def altered(edits: Iterable[Edit]) -> dict[str, str]:
    """The store's statements with some texts changed."""
    queries = statements()
    for edit in edits:
        queries = edit.applied_to(queries)
    return queries


def without(statement: str, guard: str, weaker: str = "TRUE", *, also: tuple[Edit, ...] = ()) -> Mutant:
    """The store with one guard less, or with a weaker one in its place."""
    name = f"{statement} without {guard}" if weaker == "TRUE" else f"{statement} with {weaker} for {guard}"
    return Mutant(" ".join(name.split()), (Edit(statement, guard, weaker), *also), (statement, guard))


def _fence_without(condition: str) -> str:
    assert condition in _FENCE, f"the fence must say {condition!r}"
    return _FENCE.replace(condition, "TRUE")


def _unfenced(statement: str) -> list[Mutant]:
    """Without the fence, and with half of it."""
    halves = {"attempt": "held.attempt = :attempt", "expiry": "held.expires_at > :now"}
    return [
        without(statement, "{fence}"),
        *(
            Mutant(
                f"{statement} with a fence without {half}",
                (Edit(statement, "{fence}", _fence_without(condition)),),
                (statement, "{fence}"),
            )
            for half, condition in halves.items()
        ),
    ]


def _freely(statement: str, index: str) -> Edit:
    """Lets the planner choose: the index has only rows that fulfil the guard."""
    return Edit(statement, f"INDEXED BY {index}", "")


STARTED = "status IN ('running', 'partial')"
ATTEMPT = "attempt = :attempt"
NOT_FULL = "org_id NOT IN (SELECT value FROM json_each(:full))"
_LANE_HEAD = _freely("lane_heads", "idx_jobs_lane_head")
_NEWS = "(:percent > progress_percent OR :step <> coalesce(step, ''))"
_PRESENT = "virtual_start <= (SELECT virtual_now FROM lane_clock)"
#: Which org has the next turn is a matter of fairness. Without it, empty lanes go at once.
_AT_ONCE = Edit("tidy_lanes", _PRESENT, "TRUE")

#: The reasons for which the sweep takes an attempt, as its page and its second look ask for them.
_OVERDUE = ("expires_at <= :now", "deadline_at + :grace <= :now")
_WISHED = (
    " SELECT 1 FROM jobs AS job WHERE job.org_id = lease.org_id AND job.job_id = lease.job_id"
    " AND job.cancel_requested_at + :cancel_grace <= :now"
)
_OVERDUE_ONE = (
    "lease.expires_at <= :now",
    "lease.deadline_at + :grace <= :now",
    "job.cancel_requested_at + :cancel_grace <= :now",
)

#: Guards whose absence shows by itself.
ALONE: tuple[Mutant, ...] = (
    *_unfenced("record_progress"),
    *_unfenced("record_partial"),
    *_unfenced("record_checkpoint"),
    *_unfenced("holds_lease"),
    without("give_up_lease", ATTEMPT),
    without("give_up_lease", "expires_at > :now"),
    without("renew_lease", ATTEMPT),
    without("renew_lease", "expires_at > :now"),
    without(
        "record_partial",
        "NOT EXISTS (SELECT 1 FROM job_results AS shown"
        " WHERE shown.org_id = jobs.org_id AND shown.result_id = :result_id)",
    ),
    without("end_retry", "cancel_requested_at IS NULL"),
    without("end_given_back", "cancel_requested_at IS NULL"),
    without("request_cancel", "cancel_requested_at IS NULL"),
    without("sweepable", f"({' OR '.join(_OVERDUE)} OR EXISTS ({_WISHED}))"),
    *(Mutant(f"sweepable without the reason {one}", (Edit("sweepable", one, "FALSE"),)) for one in _OVERDUE),
    Mutant("sweepable without the reason of a cancel", (Edit("sweepable", f"OR EXISTS ( {_WISHED})", ""),)),
    without("sweepable", "(org_id, job_id) > (:after_org, :after_job)"),
    without("sweepable_one", f"({' OR '.join(_OVERDUE_ONE)})"),
    *(
        Mutant(f"sweepable_one without the reason {one}", (Edit("sweepable_one", one, "FALSE"),))
        for one in _OVERDUE_ONE
    ),
    without("lost_leases", "lease.expires_at <= :now"),
    without("lost_leases", "lease.expires_at > :oldest"),
    without("lost_leases", "job.cancel_requested_at IS NULL"),
    without("live_leases", "expires_at > :now"),
    without("running_by_analysis", "lease.expires_at > :now"),
    without("running_by_org", "expires_at > :now"),
    without("due_lanes", "due_at <= :now"),
    without("due_lanes", NOT_FULL),
    without("lane_due", "next_attempt_at IS NOT NULL", also=(_freely("lane_due", "idx_jobs_lane_due"),)),
    without("waiting_lanes", "waiting > 0"),
    without("waiting_lanes", NOT_FULL),
    without("lane_heads", "started_at IS NULL", also=(_LANE_HEAD,)),
    without("lane_heads", "finished_at IS NULL", also=(_LANE_HEAD,)),
    without("find_duplicate", "request_payload_hash = :payload_hash"),
    without("find_duplicate", "finished_at IS NULL", also=(_freely("find_duplicate", "idx_jobs_duplicates"),)),
    without("tidy_lanes", "waiting = 0", also=(_AT_ONCE,)),
    without("tidy_lanes", "due_at IS NULL", also=(_AT_ONCE,)),
    without("record_progress", "limit_reached IS NOT 'events'"),
    without("record_partial", "limit_reached IS NULL"),
    Mutant(
        "progress has no bound",
        (Edit("record_progress", "iif(event_seq + 1 >= :last_news, 'events', limit_reached)", "limit_reached"),),
    ),
    Mutant("progress may take the room for the end", (Edit("record_progress", "+ 1 >= :last_news", "> :last_news"),)),
    Mutant(
        "partials have no bound",
        (Edit("record_partial", "WHEN partial_bytes + :size > :most_bytes THEN 'partials'", ""),),
    ),
    Mutant("partials do not count", (Edit("record_partial", ":size, 0)", "0, 0)"),)),
    without("record_progress", _NEWS),
    without("record_progress", _NEWS, ":percent > progress_percent"),
    without("record_progress", _NEWS, ":step <> coalesce(step, '')"),
    # Not guards, but promises of the same statements.
    Mutant("progress may fall", (Edit("record_progress", "max(progress_percent, :percent)", ":percent"),)),
    Mutant(
        "progress may fall with a partial", (Edit("record_partial", "max(progress_percent, :percent)", ":percent"),)
    ),
    Mutant(
        "a chunk may change", (Edit("record_checkpoint", "DO NOTHING", "DO UPDATE SET payload = excluded.payload"),)
    ),
    Mutant(
        "the fencing token stands still", (Edit("claim_job", "attempt = attempt + 1", "attempt = max(attempt, 1)"),)
    ),
    Mutant("the last wish to stop counts", (Edit("end_canceled", "coalesce(canceled_by, :by)", ":by"),)),
)

#: Lets everybody end an attempt, also one that has no lease.
_WAVED_THROUGH = Mutant(
    "give_up_lease says yes to everybody",
    (
        Edit(
            "give_up_lease",
            "AND expires_at > :now",
            "AND expires_at > :now;\n"
            "UPDATE jobs SET updated_at = updated_at WHERE org_id = :org_id AND job_id = :job_id",
        ),
    ),
)
_ALWAYS_HELD = Mutant(
    "every job looks held",
    (Edit("job_view", "lease.expires_at FROM", "coalesce(lease.expires_at, 9000000000000000000) FROM"),),
)
_LEASE_FIRST = "the end of an attempt starts with taking its lease, which only the current attempt of a started job has"
_FENCE_FIRST = "only a started job has a lease, and the fence asks for one"

#: Guards whose absence no schedule can show, because another one in the same transaction decides before.
IN_COMPANY: tuple[Redundant, ...] = (
    *(
        Redundant(without(statement, guard), _WAVED_THROUGH, _LEASE_FIRST)
        for statement in ("end_completed", "end_failed", "end_retry", "end_given_back")
        for guard in (ATTEMPT, STARTED)
    ),
    Redundant(without("end_canceled", "status IN ('queued', 'running', 'partial')"), _WAVED_THROUGH, _LEASE_FIRST),
    *(
        Redundant(without(statement, STARTED), without(statement, "{fence}"), _FENCE_FIRST)
        for statement in ("record_progress", "record_partial", "record_checkpoint")
    ),
    Redundant(without("request_cancel", STARTED), _ALWAYS_HELD, "only a job with a live lease is asked to stop"),
    Redundant(
        without("take_lease", ATTEMPT),
        without("sweepable_one", "lease.attempt = :attempt"),
        "the sweep has just looked for the lease of this attempt",
    ),
    Redundant(
        without("sweepable_one", "lease.attempt = :attempt"),
        without("take_lease", ATTEMPT),
        "the sweep then takes the lease of this attempt and of no other",
    ),
    *(
        Redundant(
            without(
                "claim_job",
                "(status = 'queued' OR (status IN ('running', 'partial') AND next_attempt_at <= :now))",
            ),
            company,
            "the jobs were chosen in the same transaction, by the same conditions",
        )
        for company in (
            Mutant("every retry looks due", (Edit("lane_due", "SELECT next_attempt_at,", "SELECT 0,"),)),
            without("lane_heads", "finished_at IS NULL", also=(_LANE_HEAD,)),
        )
    ),
)

#: All weaker stores that some schedule shows.
MUTANTS: tuple[Mutant | Redundant, ...] = (*ALONE, *IN_COMPANY)

_INDEXED = "it names the index; the highest place is not null wherever there is one"
_ESTIMATE = "it tells how long a job will probably wait, and nothing is decided by that"

_AMONG_THE_NEWEST = (
    "queued_at = ( SELECT newest.queued_at FROM jobs AS newest INDEXED BY idx_jobs_lane_head "
    "WHERE newest.org_id = :org_id AND newest.analysis = :analysis AND newest.priority_class = :priority_class "
    "AND newest.started_at IS NULL AND newest.finished_at IS NULL ORDER BY newest.queued_at DESC LIMIT 1)"
)

#: Conditions that guard nothing that a schedule could break.
NO_GUARDS: dict[tuple[str, str], str] = {
    ("tidy_lanes", _PRESENT): "which org has the next turn is a matter of fairness; any order is a legal schedule",
    ("last_feed_mark", "event.feed_mark IS NOT NULL"): _INDEXED,
    ("last_ticket", "priority_class = :priority_class"): _ESTIMATE,
    ("last_ticket", "started_at IS NULL"): _ESTIMATE,
    ("last_ticket", "finished_at IS NULL"): _ESTIMATE,
    ("last_ticket", _AMONG_THE_NEWEST): _ESTIMATE,
    ("all_waiting_lanes", "waiting > 0"): _ESTIMATE,
    ("all_runs", "lease.expires_at > :now"): _ESTIMATE,
}
