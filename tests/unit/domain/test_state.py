"""The transition table, and everything that is derived from it."""

import asyncio
import re
from importlib import resources

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.domain.event import STATE_AFTER, EventType
from langlauf.domain.state import LEGAL, STARTED, TERMINAL, Status, is_legal
from langlauf.hints import Hints
from langlauf.store.sql import load_queries
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import JobFactory, SetClock
from tests.support.tiers import at_scale
from tests.unit.domain.job_actions import make_move

#: What a row needs besides its status, so that only the transition can be what is refused.
FILL = {
    Status.QUEUED: "started_at = NULL, attempt = 0",
    Status.RUNNING: "started_at = 1, attempt_started_at = 1, attempt = 1",
    Status.PARTIAL: "started_at = 1, attempt_started_at = 1, attempt = 1, partial_count = 1, result_id = 'r'",
    Status.COMPLETED: "finished_at = 2, progress_percent = 100, result_id = 'r'",
    Status.FAILED: "finished_at = 2, failed_at = 2, error_code = 'x', error_message = 'x', retryable = 0",
    Status.CANCELED: "finished_at = 2, canceled_at = 2, canceled_by = 'user', cancel_reason = 'x'",
}


def _migration() -> str:
    return resources.files("langlauf.store.sqlite").joinpath("migrations/0001_store.sql").read_text("utf-8")


def test_the_terminal_states_are_those_nothing_leaves() -> None:
    """Derived, and as the contract says."""
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELED} == TERMINAL
    assert {Status.RUNNING, Status.PARTIAL} == STARTED
    assert not any(is_legal(state, target) for state in TERMINAL for target in Status)


def test_a_job_cannot_complete_without_running() -> None:
    """The jump that the sources forbid by name."""
    assert not is_legal(Status.QUEUED, Status.COMPLETED)
    assert not is_legal(None, Status.RUNNING)


def test_the_constraints_of_the_schema_name_every_state() -> None:
    """The migration says what is so in each state of the table, and in no other."""
    assert re.findall(r"^        WHEN '(\w+)' THEN", _migration(), re.MULTILINE) == list(Status)


def test_every_state_has_its_event() -> None:
    """A change of state that nobody is told of cannot exist."""
    assert set(STATE_AFTER.values()) == set(Status)
    assert set(STATE_AFTER) <= set(EventType)


def _row_in(connection: apsw.Connection, state: Status) -> None:
    columns = "org_id, job_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at"
    columns += ", updated_at, timeout_seconds, max_retries, trace_id, request_id, imported_at"
    connection.execute("DELETE FROM job_rows")
    # Born in this state the way an import may.
    names, values = _filled(state)
    connection.execute(
        f"INSERT INTO jobs ({columns}{names}) "
        f"VALUES ('o', 'j', 'a', '{state}', 'default', 'ab', 'inline:', 1, 1, 1.0, 0, 't', 'q', 1{values})"
    )


def _filled(state: Status) -> tuple[str, str]:
    pairs = [part.split(" = ") for part in FILL[state].split(", ")]
    return "".join(f", {name}" for name, _ in pairs), "".join(f", {value}" for _, value in pairs)


def _changes() -> dict[str, str]:
    """The statements that change a state, each with the lease of its attempt taken for granted."""
    queries = load_queries("langlauf.store.sqlite", "writes.sql")
    found = {name: text for name, text in queries.items() if re.search(r"UPDATE job_rows SET[^;]*?\bstatus = ", text)}
    return {name: _unfenced(text) for name, text in found.items()}


def _unfenced(text: str) -> str:
    return re.sub(r"\b(lease_expires_at > [:?]\w+|attempt = [:?]\w+)", "TRUE", text.replace("{fence}", "TRUE"))


def _values(text: str) -> dict[str, object] | tuple[object, ...]:
    """Values with which a statement finds the row, and can fill in what the state needs."""
    words = {"job_id": "j", "org": 1, "by": "user", "hint": None, "unheld": True, "retryable": 0}
    if names := set(re.findall(r":(\w+)", text)):
        return {name: words.get(name, 3) for name in names}
    places = int(max(re.findall(r"\?(\d+)", text), key=int))
    return (1, "j", 1, 3, *(3,) * (places - 4)) if "job_id = ?2" in text else (1, *(3,) * (places - 1))


@pytest.mark.parametrize("statement", _changes())
@pytest.mark.parametrize("old", Status)
def test_a_statement_makes_no_change_that_the_table_refuses(statement: str, old: Status) -> None:
    """Each statement that sets a state is tried on a row in each state, as if its attempt held the lease."""
    connection = open_connection(MEMORY)
    migrate(connection)
    _row_in(connection, old)
    text = _changes()[statement]
    connection.execute(text, _values(text)).fetchall()
    new = Status(str(connection.execute("SELECT status FROM jobs").get))
    assert new is old or (old, new) in LEGAL
    assert not connection.changes() or old not in TERMINAL


def test_a_job_that_never_ran_has_not_ended_by_itself() -> None:
    """A row that skips the running is refused by the database, unless it was imported."""
    connection = open_connection(MEMORY)
    migrate(connection)
    for state in (Status.COMPLETED, Status.FAILED):
        _row_in(connection, Status.QUEUED)
        connection.execute("UPDATE job_rows SET imported_at = NULL")
        with pytest.raises(apsw.ConstraintError, match="CHECK"):
            connection.execute(f"UPDATE job_rows SET status = '{state}', {FILL[state]}")


MOVES = ("progress", "partial", "complete", "fail", "retry", "stop", "cancel", "release", "claim", "lose")


@settings(max_examples=at_scale(60, 20), deadline=None)
@given(st.lists(st.sampled_from(MOVES), max_size=14))
def test_whatever_happens_the_log_folds_to_the_state_along_legal_changes(moves: list[str]) -> None:
    """Any order of writes, takeovers and cancels leaves a job whose events tell its state, step by legal step."""
    asyncio.run(_play(moves))


async def _play(moves: list[str]) -> None:
    clock = SetClock()
    store = await SqliteStore.open(MEMORY, clock=clock, hints=Hints())
    try:
        player = Player(JobFactory(store, clock))
        await player.play(moves)
        await player.check()
    finally:
        await store.close()


class Player:
    """Makes the moves on one job, with whatever lease was given out last."""

    def __init__(self, maker: JobFactory) -> None:
        self.maker = maker

    async def play(self, moves: list[str]) -> None:
        self.job = await self.maker.queued()
        claim = None
        for move in moves:
            claim = await make_move(self.maker, self.job, claim, move)

    async def check(self) -> None:
        tenant = self.maker.store.tenant(self.maker.org_id)
        view = await tenant.job(self.job.job_id)
        events = await tenant.events(self.job.job_id, after=0, limit=1_000)
        assert view is not None
        assert [event.event_seq for event in events] == list(range(1, view.job.event_seq + 1))
        state: Status | None = None
        for event in events:
            target = STATE_AFTER.get(event.event_type, state)
            assert target is not None
            assert target is state or is_legal(state, target), (state, event.event_type)
            assert state not in TERMINAL
            state = target
        assert state is view.job.status
