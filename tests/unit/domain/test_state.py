"""The transition table, and everything that is derived from it."""

import asyncio
from importlib import resources
from itertools import product

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.domain.event import STATE_AFTER, EventType
from langlauf.domain.state import LEGAL, STARTED, TERMINAL, Status, allowed, sql_words
from langlauf.hints import Hints
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.moves import make_move
from tests.support.stores import Maker, SetClock
from tests.support.tiers import at_scale

PAIRS = [(old, new) for old, new in product(Status, Status) if old is not new]
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
    assert not any(allowed(state, target) for state in TERMINAL for target in Status)


def test_a_job_cannot_complete_without_running() -> None:
    """The jump that the sources forbid by name."""
    assert not allowed(Status.QUEUED, Status.COMPLETED)
    assert not allowed(None, Status.RUNNING)


def test_the_constraints_of_the_schema_come_from_the_table() -> None:
    """The migration says literally what the table says; neither can change alone."""
    text = _migration()
    assert f"CHECK (status IN ({sql_words(Status)}))" in text
    assert f"(status IN ({sql_words(TERMINAL)}))" in text


def test_every_state_has_its_event() -> None:
    """A change of state that nobody is told of cannot exist."""
    assert set(STATE_AFTER.values()) == set(Status)
    assert set(STATE_AFTER) <= set(EventType)


def _row_in(connection: apsw.Connection, state: Status) -> None:
    columns = "org_id, job_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at"
    columns += ", updated_at, timeout_seconds, max_retries, trace_id, request_id, imported_at"
    connection.execute("DELETE FROM job_rows")
    # Born in this state the way an import may, so that the trigger on changes is alone responsible.
    names, values = _filled(state)
    connection.execute(
        f"INSERT INTO jobs ({columns}{names}) "
        f"VALUES ('o', 'j', 'a', '{state}', 'default', 'ab', 'inline:', 1, 1, 1.0, 0, 't', 'q', 1{values})"
    )


def _filled(state: Status) -> tuple[str, str]:
    pairs = [part.split(" = ") for part in FILL[state].split(", ")]
    return "".join(f", {name}" for name, _ in pairs), "".join(f", {value}" for _, value in pairs)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_the_database_refuses_exactly_what_the_table_refuses(old: Status, new: Status) -> None:
    """Every pair of states is tried on a real row."""
    connection = open_connection(MEMORY)
    migrate(connection)
    _row_in(connection, old)
    change = f"UPDATE job_rows SET status = '{new}', {FILL[new]}"
    if (old, new) in LEGAL:
        connection.execute(change)
        assert connection.execute("SELECT status FROM jobs").get == new
    else:
        with pytest.raises(apsw.ConstraintError, match=r"illegal transition|has ended|CHECK"):
            connection.execute(change)
        assert connection.execute("SELECT status FROM jobs").get == old


def test_a_job_is_born_queued() -> None:
    """A row that starts anywhere else is refused, unless it was imported."""
    connection = open_connection(MEMORY)
    migrate(connection)
    with pytest.raises(apsw.ConstraintError, match="starts as queued"):
        connection.execute(
            "INSERT INTO jobs (org_id, job_id, analysis, status, priority_class, request_payload_hash, "
            "request_payload_ref, queued_at, updated_at, timeout_seconds, max_retries, trace_id, request_id, "
            "started_at, attempt_started_at, attempt) "
            "VALUES ('o', 'j', 'a', 'running', 'default', 'ab', 'inline:', 1, 1, 1.0, 0, 't', 'q', 1, 1, 1)"
        )


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
        player = Player(Maker(store, clock))
        await player.play(moves)
        await player.check()
    finally:
        await store.close()


class Player:
    """Makes the moves on one job, with whatever lease was given out last."""

    def __init__(self, maker: Maker) -> None:
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
            assert target is state or allowed(state, target), (state, event.event_type)
            assert state not in TERMINAL
            state = target
        assert state is view.job.status
