"""The PostgreSQL store with one guard less. Each guard of the functions that write stands in one of the tables.

A mutant changes the text of a function as the database has it; a text that is no longer there is an error, so no table
can go stale. What decides between two transactions at the same moment cannot show where one follows the other: those
guards are named with their reason.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

#: The functions whose guards must all be named, and the words by which a guard is known.
FUNCTIONS = (
    *(
        "submit",
        "may_start",
        "lock_orgs",
        "lock_lanes",
        "free_slots",
        "lock_first_lanes",
        "lock_more_lanes",
        "start_attempts",
        "retries_due",
        "turns_wanted",
    ),
    *("claim_back", "deal_turns", "next_in_turn", "claim", "renew", "decide_ends", "request_cancel"),
    *("complete_jobs", "write_ends", "keep_attempts"),
    *("cancel", "record", "record_progress", "record_partials", "record_checkpoints", "written_or_unchanged"),
    *("limits_reached", "lock_jobs", "sweep", "overdue_end", "tidy", "timed_orgs", "settle_times", "enter_line"),
)
GUARD = re.compile(
    r"expires_at\s+(?:>|<=)\s+now|attempt\s+=\s+(?:one|new|mine|hit)\.attempt"
    r"|(?:AND|\()\s*(?:jobs\.)?status\s+(?:IN|=)\s|next_attempt_at\s+(?:IS NULL|<=\s+now)(?=[\s)])"
    r"|(?:jobs|job)\.cancel_requested_at\s+(?:IS|\+)|AND\s+cancel_requested_at\s+IS NULL"
    r"|finished_at\s+IS NULL|started_at\s+IS NULL|(?:due|back)_at\s+(?:<=|IS)|waiting\s+(?:> 0|= 0)(?!\))"
    r"|FOR (?:NO KEY )?UPDATE|FOR SHARE|IF NOT FOUND|ON CONFLICT DO NOTHING|AND claim_id\s+=\s+claim"
)


class Edit(NamedTuple):
    """A function in which one text stands for another."""

    function: str
    old: str
    new: str

    def span(self, definition: str) -> tuple[int, int]:
        """Where the text is; it is there once. Any white space in it fits any other."""
        found = list(re.finditer(r"\s+".join(map(re.escape, self.old.split())), definition))
        assert len(found) == 1, f"{self.function} must have exactly one {self.old!r}, not {len(found)}"
        return found[0].span()

    def applied_to(self, definition: str) -> str:
        """The function with this text altered."""
        start, end = self.span(definition)
        return definition[:start] + self.new + definition[end:]


class Mutant(NamedTuple):
    """A weaker store. `seed` is that of a schedule which showed it when it was last looked for."""

    name: str
    edits: tuple[Edit, ...]
    seed: int


def without(function: str, guard: str, seed: int, weaker: str = "TRUE", *, also: tuple[Edit, ...] = ()) -> Mutant:
    """The store with one guard less, or with a weaker one in its place."""
    name = f"{function} without {guard}" if weaker == "TRUE" else f"{function} with {weaker} for {guard}"
    return Mutant(" ".join(name.split())[:120], (Edit(function, guard, weaker), *also), seed)


_ALIVE = "AND jobs.lease_expires_at > now"
_RETRY = "coalesce(last_retry_at >= attempt_started_at, false)::integer"
#: Which org has the next turn is a matter of fairness. Without it, empty lanes go at once.
_AT_ONCE = Edit("tidy", "virtual_start <= (SELECT virtual_now FROM lane_clock)", "TRUE")

#: Guards whose absence shows by itself.
ALONE: tuple[Mutant, ...] = (
    without("record_progress", _ALIVE, 19, ""),
    without("record_progress", "jobs.attempt = new.attempt", 10),
    without("record_progress", "(new.percent > progress_percent OR new.step <> coalesce(jobs.step, ''))", 61),
    without("record_progress", "jobs.limit_reached IS DISTINCT FROM 'events'", 1),
    without("record_partials", "AND jobs.limit_reached IS NULL", 1, ""),
    without(
        "record_progress",
        "CASE WHEN event_seq + 1 >= new.news_end THEN 'events' ELSE limit_reached END",
        414,
        "limit_reached",
    ),
    without("record_partials", "WHEN coalesce(partial_bytes, 0) + new.size > new.most_bytes THEN 'partials'", 7, ""),
    without("record_partials", "THEN new.size ELSE 0 END", 0, "THEN 0 ELSE 0 END"),
    without("limits_reached", "AND job.limit_reached IS NOT NULL", 1, "AND FALSE"),
    without("record_partials", _ALIVE, 6, ""),
    without("record_partials", "jobs.attempt = new.attempt", 63),
    without(
        "record_partials",
        "(jobs.partial_count = 0 OR NOT EXISTS ( SELECT 1 FROM result_rows AS shown"
        " WHERE shown.result = new.result AND shown.job = new.job AND shown.org_id = new.org_id))",
        132,
    ),
    without("written_or_unchanged", "job.attempt = one.attempt", 10),
    without("written_or_unchanged", "job.lease_expires_at > now", 6),
    without("record_checkpoints", "job.attempt = one.attempt", 105),
    without("record_checkpoints", "job.lease_expires_at > now", 4),
    without(
        "record_checkpoints",
        "ON CONFLICT DO NOTHING",
        115,
        "ON CONFLICT (job_id, chunk_key) DO UPDATE SET payload = excluded.payload",
    ),
    without("complete_jobs", "AND jobs.attempt = new.attempt", 2, ""),
    without("complete_jobs", "AND jobs.lease_expires_at > now", 15, ""),
    without("write_ends", "AND jobs.attempt = new.attempt", 2, ""),
    without("keep_attempts", "one.kind IN ('retry', 'lost', 'released')", 2, "one.kind = 'retry'"),
    without(
        "submit",
        "AND NOT (chunk.chunk_key >= 'langlauf:attempt:' AND chunk.chunk_key < 'langlauf:attempt;')",
        83,
        "",
    ),
    without("write_ends", "(new.unfenced OR jobs.lease_expires_at > now)", 15),
    without("record", "IF outcomes IS NOT NULL THEN RETURN outcomes;", 1, "IF FALSE THEN RETURN outcomes;"),
    without("submit", "IF asked_again THEN FOR hit", 3, "IF FALSE THEN FOR hit"),
    without("may_start", "counted.waiting = 0", 7),
    without("may_start", "wanted.most - counted.leased", 198, "wanted.slots"),
    without("may_start", "analysis = ANY (wanted.known) AND run_at IS NULL", 848, "run_at IS NULL"),
    without("may_start", "OR wanted.org_limit IS NOT NULL", 440, ""),
    without("submit", "jobs.finished_at IS NULL", 41),
    without("submit", "wish.refuse_duplicate AND outcomes[wish.ordinality] IS NULL", 26, "wish.refuse_duplicate"),
    without(
        "submit",
        "wish.refuse_duplicate AND outcomes[wish.ordinality] IS NULL",
        1324,
        "outcomes[wish.ordinality] IS NULL",
    ),
    without("submit", "AND outcomes[wish.ordinality] NOT LIKE 'known %'", 182, "AND FALSE"),
    without("renew", "jobs.attempt = mine.attempt", 24),
    without("renew", "jobs.lease_expires_at > now", 20),
    without("free_slots", "coalesce(free.look_at > now, true)", 145),
    without(
        "free_slots", "FROM lease WHERE lease_expires_at > now GROUP BY analysis", 363, "FROM lease GROUP BY analysis"
    ),
    without("free_slots", "FROM lease WHERE lease_expires_at > now GROUP BY org_id", 28, "FROM lease GROUP BY org_id"),
    without("free_slots", "lease_expires_at <= now AND", 17, ""),
    without("free_slots", "lease_expires_at > now - lease_time AND", 20, ""),
    without("free_slots", "AND cancel_requested_at IS NULL", 113, ""),
    without(
        "claim",
        "asked_again AND EXISTS (SELECT 1 FROM job_rows WHERE deadline_at > 0 AND claim_id = claim)",
        3,
        "FALSE",
    ),
    without(
        "next_in_turn", "started_at IS NULL AND", 3, "", also=(Edit("next_in_turn", "ticket > class.head AND", ""),)
    ),
    without(
        "next_in_turn", "AND finished_at IS NULL", 4, "", also=(Edit("next_in_turn", "ticket > class.head AND", ""),)
    ),
    without("deal_turns", "lane.due_at <= now", 6, "FALSE"),
    without(
        "decide_ends",
        "ELSIF seen.cancel_requested_at IS NOT NULL THEN one.kind := 'canceled'; one.actor := 'system'",
        30,
        "ELSIF FALSE THEN one.kind := 'canceled'; one.actor := 'system'",
    ),
    without(
        "decide_ends",
        "IF seen.cancel_requested_at IS NOT NULL THEN one.kind := 'canceled'; one.actor := NULL",
        142,
        "IF FALSE THEN one.kind := 'canceled'; one.actor := NULL",
    ),
    without("request_cancel", "AND cancel_requested_at IS NULL", 25, ""),
    without("cancel", "IF seen.lease_expires_at > now THEN", 7, "IF seen.lease_expires_at IS NOT NULL THEN"),
    without("sweep", "job.deadline_at > 0 AND (job.lease_expires_at <= now OR", 2, "job.deadline_at > 0 AND ("),
    without(
        "sweep",
        "(job.lease_expires_at <= now OR job.deadline_at + grace <= now OR",
        81,
        "(job.lease_expires_at <= now OR",
    ),
    without("sweep", "OR job.cancel_requested_at + cancel_grace <= now))", 6, "))"),
    without("overdue_end", "IF found_job.cancel_requested_at IS NOT NULL THEN", 0, "IF FALSE THEN"),
    without("settle_times", "start_by <= now AND", 109, ""),
    without("enter_line", "jobs.ticket BETWEEN -now AND -1", 1689, "jobs.ticket < 0"),
    without("enter_line", "AND jobs.finished_at IS NULL", 59, ""),
    without("tidy", "scheduled = 0 AND", 79, "", also=(_AT_ONCE,)),
    without("tidy", "waiting = 0 AND", 0, "", also=(_AT_ONCE,)),
    without("tidy", "AND due_at IS NULL", 6, "", also=(_AT_ONCE,)),
    # Not guards, but promises of the same functions.
    Mutant(
        "progress may fall", (Edit("record_progress", "greatest(progress_percent, new.percent),", "new.percent,"),), 117
    ),
    Mutant(
        "progress may fall with a partial",
        (Edit("record_partials", "greatest(progress_percent, new.percent),", "new.percent,"),),
        28,
    ),
    Mutant(
        "the fencing token stands still",
        (Edit("start_attempts", "attempt = attempt + 1", "attempt = greatest(attempt, 1)"),),
        1,
    ),
    Mutant(
        "the last wish to stop counts",
        (Edit("write_ends", "coalesce(jobs.canceled_by, new.canceled_by)", "new.canceled_by"),),
        0,
    ),
    Mutant(
        "a canceled attempt is counted as crashed",
        (Edit("decide_ends", "one.crashed := 0; END IF; writes[number]", "END IF; writes[number]"),),
        142,
    ),
    Mutant("the time limit of a canceled attempt is told", (Edit("decide_ends", "one.timed_out := false;", ""),), 30),
)

_TURNS = "two that come at the same moment would both see what one of them is about to change"
_AGAIN = "what was found is looked at again when it is locked: another one may have been faster"
_NOT_WAITING = "what another one has in hand is left to it instead of being waited for"
_IN_ORDER = "everybody locks in the same order, so that nobody waits in a circle"
_CROWDED = "only the first few lanes are looked at: those that have nothing to give would crowd out the others"
_CHOSEN = "the jobs were chosen and locked in the same transaction, by the same conditions"
_LEASED = "only a job that has started has a lease"
_SCENE = "tests/store_contract/test_standing_claims.py has a scene in which it decides"

#: Guards that only transactions at the same moment need, or behind which another one stands, with the reason.
UNSEEN: Mapping[tuple[str, str], str] = {
    (
        "keep_attempts",
        "'released') ON CONFLICT DO NOTHING",
    ): "only an import can bring what is kept of an attempt to come",
    ("record_progress", "AND jobs.status IN ('running', 'partial')"): _LEASED,
    ("record_partials", "AND jobs.status IN ('running', 'partial')"): _LEASED,
    ("complete_jobs", "AND jobs.status IN ('running', 'partial')"): _LEASED,
    ("write_ends", "(jobs.status IN ('running', 'partial') OR (jobs.status = 'queued'"): _LEASED,
    (
        "write_ends",
        "OR jobs.cancel_requested_at IS NULL)",
    ): "what becomes of a job that is wished to stop was decided before",
    ("request_cancel", "AND status IN ('running', 'partial')"): "only a job with a live lease is asked to stop",
    (
        "start_attempts",
        "((status = 'queued' AND ticket >= 0) OR (status IN ('running', 'partial') AND next_attempt_at <= now))",
    ): _CHOSEN,
    ("timed_orgs", "start_by <= now AND started_at IS NULL AND finished_at IS NULL"): _CROWDED,
    (
        "settle_times",
        "AND started_at IS NULL AND finished_at IS NULL",
    ): "the end asks for a job that is queued or runs, and for attempt 0",
    ("settle_times", "LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("enter_line", "AND jobs.started_at IS NULL"): "a job that has started has been in line",
    ("enter_line", "LIMIT most FOR NO KEY UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("enter_line", "AND jobs.ticket < 0 AND jobs.status = 'queued'"): _CHOSEN,
    (
        "cancel",
        "AND finished_at IS NULL FOR NO KEY UPDATE",
    ): "a job that has ended is not ended again: its status is asked with the write",
    ("lock_jobs", "ORDER BY jobs.job FOR NO KEY UPDATE OF jobs"): _IN_ORDER,
    ("decide_ends", "AND job = one.job FOR UPDATE"): _TURNS,
    ("claim", "FROM lane_clock FOR UPDATE"): _TURNS,
    ("claim_back", "AND next_attempt_at <= now ORDER BY"): "what was given back is due at once",
    ("claim_back", "back_at <= now"): _CROWDED,
    ("claim_back", "LIMIT free.slots FOR UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("turns_wanted", "mine.name AND waiting > 0"): _CROWDED,
    ("turns_wanted", "due_at <= now"): _CROWDED,
    ("retries_due", "AND next_attempt_at <= now"): "the jobs themselves are chosen by the same condition",
    (
        "next_in_turn",
        f"AND {_RETRY} = 1 AND next_attempt_at <= now",
    ): "an attempt asks the same when it starts, and a lane says when its first job is due",
    ("next_in_turn", "(lane.waiting > 0 OR lane.due_at <= now)"): _CROWDED,
    ("next_in_turn", "WHERE lane.due_at <= now UNION ALL"): _CROWDED,
    ("next_in_turn", "ORDER BY next_attempt_at LIMIT lane.most FOR UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("next_in_turn", "ORDER BY ticket LIMIT lane.most FOR UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("lock_first_lanes", "back_at <= now"): _CROWDED,
    ("lock_first_lanes", "due_at <= now"): _CROWDED,
    ("lock_first_lanes", "mine.name AND waiting > 0"): _CROWDED,
    ("lock_more_lanes", "FOR UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("lock_orgs", "ORDER BY org_id, analysis FOR UPDATE"): _TURNS,
    ("lock_lanes", "ORDER BY org_id, analysis FOR UPDATE"): _TURNS,
    ("lock_lanes", "ON CONFLICT DO NOTHING"): _TURNS,
    ("submit", "FROM lane_clock FOR UPDATE"): _TURNS,
    ("may_start", "analysis = ANY (wanted.known) AND due_at <= now"): _SCENE,
    ("may_start", "next_run_at <= now"): _SCENE,
    ("may_start", "least(wanted.slots, "): _SCENE,
    ("may_start", "run_at IS NULL AND start_by IS NULL AND reuse_version IS NULL"): _SCENE,
    ("may_start", "clock.pauses = 0"): _SCENE,
    ("may_start", "coalesce(clock.look_at > now, true)"): _SCENE,
    ("may_start", "cardinality(wanted.limited) > 0"): _SCENE,
    ("submit", "ORDER BY org_id, idempotency_key ON CONFLICT DO NOTHING"): _TURNS,
    ("record_checkpoints", "ORDER BY job.job FOR SHARE OF job"): _TURNS,
    ("sweep", "AND job.deadline_at IS NOT NULL OFFSET 0 FOR NO KEY UPDATE SKIP LOCKED"): _AGAIN,
    ("tidy", "FOR UPDATE SKIP LOCKED"): _NOT_WAITING,
    ("tidy", "back_at IS NULL AND"): "a job that was given back is due as well",
}


def unnamed(function: str, definition: str) -> Iterator[str]:
    """The guards of a function that no table names."""
    named = [edit.span(definition) for mutant in ALONE for edit in mutant.edits if edit.function == function]
    named += [Edit(function, text, "").span(definition) for name, text in UNSEEN if name == function]
    for match in GUARD.finditer(definition):
        if not any(start <= match.start() and match.end() <= end for start, end in named):
            yield definition[max(0, match.start() - 60) : match.end() + 20]
