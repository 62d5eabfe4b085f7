"""The store with one guard less. Every guard of every statement stands in one of the three tables at the end.

A mutant changes the text of `writes.sql`; a text that is no longer there is an error, so no table can go stale.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from langlauf.store.sqlite.engine import _FENCE
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


def _unfenced(statement: str) -> list[Mutant]:
    """Without the fence, and with half of it."""
    halves = {"attempt": _FENCE.partition(" AND ")[2], "expiry": _FENCE.partition(" AND ")[0]}
    return [
        without(statement, "{fence}"),
        *(
            Mutant(
                f"{statement} with a fence without {half}", (Edit(statement, "{fence}", rest),), (statement, "{fence}")
            )
            for half, rest in halves.items()
        ),
    ]


def _freely(statement: str, index: str) -> Edit:
    """Lets the planner choose: the index has only rows that fulfil the guard."""
    return Edit(statement, f"INDEXED BY {index}", "")


STARTED = "status IN ('running', 'partial')"
NOT_FULL = "org NOT IN (SELECT value FROM json_each(:excluded))"
LEASED = "deadline_at IS NOT NULL"
_LANE_HEAD = _freely("lane_heads", "idx_jobs_lane_head")
_LATE = _freely("late_jobs", "idx_jobs_start_by")
_NEWS = "(?6 > progress_percent OR ?7 <> coalesce(step, ''))"
_PRESENT = "virtual_start <= (SELECT virtual_now FROM lane_clock)"
#: Which org has the next turn is a matter of fairness. Without it, empty lanes go at once.
_AT_ONCE = Edit("tidy_lanes", _PRESENT, "TRUE")

#: The reasons for which the sweep takes an attempt, as its page and its second look ask for them.
_OVERDUE = ("lease_expires_at <= :now", "deadline_at + :grace <= :now", "cancel_requested_at + :cancel_grace <= :now")
_ANY_OVERDUE = f"({' OR '.join(_OVERDUE)})"
_SHOWN = "NOT EXISTS (SELECT 1 FROM result_rows AS shown WHERE shown.result_id = ?9)"
_ATTEMPT, ALIVE = "attempt = ?4", "lease_expires_at > ?5"
_NOT_FULL_YET, _ANY_ROOM = "limit_reached IS NOT 'events'", "limit_reached IS NULL"
_HELD_BY_ANOTHER = "(:unheld AND (lease_expires_at IS NULL OR lease_expires_at <= :now) OR {fence})"

#: Guards whose absence shows by itself.
ALONE: tuple[Mutant, ...] = (
    *_unfenced("record_checkpoint"),
    *_unfenced("holds_lease"),
    *_unfenced("end_failed"),
    *_unfenced("end_retry"),
    *_unfenced("end_given_back"),
    without("end_canceled", _HELD_BY_ANOTHER),
    without("completing_jobs", "attempt = ?4", "?4"),
    without("completing_jobs", "lease_expires_at > ?5", "?5"),
    without("renew_lease", "attempt = :attempt"),
    without("renew_lease", "lease_expires_at > :now"),
    *(without(look, guard) for look in ("reporting_jobs", "showing_jobs") for guard in (_ATTEMPT, ALIVE)),
    without("reporting_jobs", _NEWS),
    without("reporting_jobs", _NOT_FULL_YET),
    without("showing_jobs", _SHOWN),
    without("showing_jobs", _ANY_ROOM),
    without("end_retry", "cancel_requested_at IS NULL"),
    without("end_given_back", "cancel_requested_at IS NULL"),
    without("request_cancel", "cancel_requested_at IS NULL"),
    without("sweepable", _ANY_OVERDUE),
    *(Mutant(f"sweepable without the reason {one}", (Edit("sweepable", one, "FALSE"),)) for one in _OVERDUE),
    without("sweepable", "job.job > :after"),
    without("sweepable_one", _ANY_OVERDUE),
    *(Mutant(f"sweepable_one without the reason {one}", (Edit("sweepable_one", one, "FALSE"),)) for one in _OVERDUE),
    without("lost_leases", "lease_expires_at <= :now"),
    without("lost_leases", "lease_expires_at > :oldest"),
    without("lost_leases", "cancel_requested_at IS NULL"),
    without("live_leases", "lease_expires_at > :now"),
    without("due_lanes", "due_at <= :now"),
    without("due_lanes", NOT_FULL),
    without("lane_due", "next_attempt_at IS NOT NULL", also=(_freely("lane_due", "idx_jobs_lane_due"),)),
    without("waiting_lanes", "waiting > 0"),
    without("waiting_lanes", NOT_FULL),
    without("lane_heads", "one.started_at IS NULL", also=(_LANE_HEAD,)),
    without("lane_heads", "one.finished_at IS NULL", also=(_LANE_HEAD,)),
    without("lane_heads", "one.ticket >= 0"),
    without("jobs_to_run", "expedite = :expedite", "(:expedite OR TRUE)"),
    without("jobs_to_run", "ticket >= -:now", "(:now OR TRUE)"),
    without("jobs_to_run", "ticket < 0"),
    without("jobs_to_run", "finished_at IS NULL", also=(_freely("jobs_to_run", "idx_jobs_lane_head"),)),
    without("late_jobs", "start_by <= :now", "(:now OR TRUE)", also=(_LATE,)),
    without("late_jobs", "started_at IS NULL", also=(_LATE,)),
    without("tidy_lanes", "scheduled = 0", also=(_AT_ONCE,)),
    without("tidy_lanes", "waiting = 0", also=(_AT_ONCE,)),
    without("tidy_lanes", "due_at IS NULL", also=(_AT_ONCE,)),
    Mutant(
        "a duplicate may have another input",
        (
            Edit("find_duplicates", "AND payload_hash = ?2", ""),
            Edit("find_duplicates", "substr(payload_hash, 1, 8) = substr(?2, 1, 8)", "TRUE"),
            _freely("find_duplicates", "idx_jobs_duplicates"),
        ),
    ),
    Mutant(
        "a duplicate may have ended",
        (Edit("find_duplicates", "AND finished_at IS NULL", ""), _freely("find_duplicates", "idx_jobs_duplicates")),
    ),
    Mutant(
        "progress has no bound",
        tuple(
            Edit(statement, "iif(event_seq + 1 >= ?9, 'events', limit_reached)", "iif(?9, limit_reached, NULL)")
            for statement in ("reporting_jobs", "record_progress")
        ),
    ),
    Mutant(
        "progress may take the room for the end",
        tuple(Edit(statement, "+ 1 >= ?9", "> ?9") for statement in ("reporting_jobs", "record_progress")),
    ),
    Mutant(
        "partials have no bound",
        tuple(
            Edit(statement, "WHEN partial_bytes + ?10 > ?11 THEN 'partials'", "")
            for statement in ("showing_jobs", "record_partial")
        ),
    ),
    Mutant("partials do not count", (Edit("record_partial", "?10, 0)", "0, 0)"),)),
    without(
        "copy_chunks",
        "NOT (done.chunk_key >= 'langlauf:attempt:' AND done.chunk_key < 'langlauf:attempt;')",
    ),
    without("keep_attempt", "ran.job = :ran"),
    # Not guards, but promises of the same statements.
    Mutant(
        "progress may fall",
        (Edit("record_progress", "progress_percent = max(progress_percent, ?6)", "progress_percent = ?6"),),
    ),
    Mutant(
        "progress may fall with a partial",
        (Edit("record_partial", "progress_percent = max(progress_percent, ?6)", "progress_percent = ?6"),),
    ),
    Mutant(
        "a chunk may change",
        (Edit("record_checkpoint", "DO NOTHING", "(job, chunk_key) DO UPDATE SET payload = excluded.payload"),),
    ),
    Mutant(
        "the fencing token stands still", (Edit("claim_jobs", "attempt = attempt + 1", "attempt = max(attempt, 1)"),)
    ),
    Mutant("the last wish to stop counts", (Edit("end_canceled", "coalesce(canceled_by, :by)", ":by"),)),
    Mutant(
        "a retry goes before the jobs of others",
        (Edit("lane_due", "coalesce(last_retry_at < attempt_started_at, 1)", "1"),),
    ),
    Mutant(
        "what was given back waits for its turn",
        (Edit("lane_due", "coalesce(last_retry_at < attempt_started_at, 1)", "0"),),
    ),
)

_ALWAYS_HELD = Mutant(
    "every job looks held",
    (Edit("job_view", "job.lease_expires_at FROM", "coalesce(job.lease_expires_at, 9000000000000000000) FROM"),),
)
_FENCE_FIRST = "only a started job has a lease, and the fence asks for one"
_LOOKED_FOR = "the jobs were looked for in the same transaction, by the same conditions"

#: Guards whose absence no schedule can show, because another one in the same transaction decides before.
IN_COMPANY: tuple[Redundant, ...] = (
    *(
        Redundant(without(statement, STARTED), without(statement, "{fence}"), _FENCE_FIRST)
        for statement in (
            "record_checkpoint",
            "end_failed",
            "end_retry",
            "end_given_back",
        )
    ),
    *(
        Redundant(without("end_completed", guard, "?4"), without("completing_jobs", other, weaker), _LOOKED_FOR)
        for guard, other, weaker in (
            ("attempt = ?4", "attempt = ?4", "?4"),
            ("lease_expires_at > ?3", "lease_expires_at > ?5", "?5"),
        )
    ),
    *(
        Redundant(without(change, guard), without(look, guard), _LOOKED_FOR)
        for look, change, guards in (
            ("reporting_jobs", "record_progress", (_ATTEMPT, ALIVE, _NEWS, _NOT_FULL_YET)),
            ("showing_jobs", "record_partial", (_ATTEMPT, ALIVE, _SHOWN, _ANY_ROOM)),
        )
        for guard in guards
    ),
    Redundant(without("request_cancel", STARTED), _ALWAYS_HELD, "only a job with a live lease is asked to stop"),
    *(
        Redundant(
            without(
                "claim_jobs",
                "((status = 'queued' AND ticket >= 0) OR (status IN ('running', 'partial') AND next_attempt_at <= ?2))",
            ),
            company,
            "the jobs were chosen in the same transaction, by the same conditions",
        )
        for company in (
            Mutant("every retry looks due", (Edit("lane_due", "SELECT job, next_attempt_at,", "SELECT job, 0,"),)),
            without("lane_heads", "one.finished_at IS NULL", also=(_LANE_HEAD,)),
        )
    ),
)

#: All weaker stores that some schedule shows.
MUTANTS: tuple[Mutant | Redundant, ...] = (*ALONE, *IN_COMPANY)

_INDEXED = "it names the index; the highest place is not null wherever there is one"
_ESTIMATE = "it tells how long a job will probably wait, and nothing is decided by that"

_COUNTED = "the jobs were looked for in the same transaction, and as many must change"
_LEASED = "the index has only rows that are so"
_BY_LEASE = "a job without a lease has ended or waits, and the fence that follows refuses it"
_ENDED = "only a started job has a lease, and both ask for one"

_REUSE = "what is reused is shown by tests/store_contract/test_reuse.py, with a mutant of each condition"
_REUSED = "the row was inserted by the same transaction"
_REUSE_GUARDS = (
    "substr(origin.payload_hash, 1, 8) = substr(:hash, 1, 8)",
    "origin.reusable = 1",
    "origin.status = 'completed'",
    "origin.finished_at >= :since",
    "origin.payload_hash = :hash",
    "codes.version = :version",
    "origin.result_expired_at IS NULL",
    (
        "EXISTS (SELECT 1 FROM result_rows AS final WHERE final.job = origin.job AND final.result_kind = 'final' "
        "AND final.payload IS NOT NULL)"
    ),
)

#: Conditions that guard nothing that a schedule could break.
NO_GUARDS: dict[tuple[str, str], str] = {
    ("tidy_lanes", _PRESENT): "which org has the next turn is a matter of fairness; any order is a legal schedule",
    ("last_feed_place", "feed_at IS NOT NULL"): _INDEXED,
    ("last_ticket", "expedite = :expedite"): _ESTIMATE,
    ("last_ticket", "started_at IS NULL"): _ESTIMATE,
    ("last_ticket", "finished_at IS NULL"): _ESTIMATE,
    ("lanes_to_run", "next_run_at <= :now"): "the jobs themselves are chosen by their time",
    ("jobs_to_run", "started_at IS NULL"): "a job that has started has been in line",
    ("enter_line", "ticket < 0"): _COUNTED,
    ("enter_line", "status = 'queued'"): _COUNTED,
    ("late_jobs", "finished_at IS NULL"): "a job that has ended is not ended again",
    ("lane_heads", "one.expedite = class.expedite"): "it is the order of the scan",
    ("lane_heads", "(one.start_by IS NULL OR one.start_by > :now)"): "a claim cancels what is too late before it looks",
    **{("find_reusable", guard): _REUSE for guard in _REUSE_GUARDS},
    ("start_reused", "status = 'queued'"): _REUSED,
    ("complete_reused", "status = 'running'"): _REUSED,
    ("copy_trail", "job = :origin"): _REUSE,
    ("copy_trail", "chunk_key >= 'langlauf:'"): _REUSE,
    ("copy_trail", "chunk_key < 'langlauf;'"): _REUSE,
    ("copy_final", "job = :origin"): _REUSE,
    ("copy_final", "result_kind = 'final'"): _REUSE,
    ("all_waiting_lanes", "waiting > 0"): _ESTIMATE,
    ("all_runs", "job.lease_expires_at > :now"): _ESTIMATE,
    ("all_runs", "job.deadline_at IS NOT NULL"): _LEASED,
    ("read_paces", "mean_seconds IS NOT NULL"): _ESTIMATE,
    ("count_live_leases", LEASED): _LEASED,
    ("count_live_leases", "lease_expires_at > :now"): "it tells how many run, and nothing is decided by that",
    ("live_leases", LEASED): _LEASED,
    ("lost_leases", LEASED): _LEASED,
    ("sweepable", f"job.{LEASED}"): _LEASED,
    ("sweepable_one", "attempt = :attempt"): _BY_LEASE,
    ("sweepable_one", "lease_expires_at IS NOT NULL"): _BY_LEASE,
    ("crashes_so_far", "{fence}"): "what is written of it then has the fence",
    **{
        (statement, STARTED): _ENDED
        for statement in (
            "end_completed",
            "completing_jobs",
            "reporting_jobs",
            "record_progress",
            "showing_jobs",
            "record_partial",
        )
    },
    ("end_canceled", "status IN ('queued', 'running', 'partial')"): _BY_LEASE,
}
