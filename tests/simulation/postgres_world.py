"""The PostgreSQL store in this process: its driver and the functions of its schema, over one connection, with set time.

Each step of a schedule is one transaction. Operations of one kind that follow one another go as one batch, as the
driver makes batches of what is asked at the same time. Where callers hear nothing of a commit, every statement that
the driver would send again is sent twice: it must answer the same and change nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any, TypeVar
from unittest.mock import patch

import asyncpg

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob
from langlauf.domain.read_models import CancelRequest
from langlauf.hints import Hints
from langlauf.store.group_commit import Recording, rounds
from langlauf.store.postgres import record, submit
from langlauf.store.postgres.connection import SESSION_SETTINGS, call_sql
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.sqlite.claim import RenewRequest
from langlauf.store.sqlite.end import TidyLanes
from tests.simulation.disagreement import Disagreement
from tests.simulation.environment import Fate, Row, SweepAll
from tests.simulation.postgres_mutants import Edit
from tests.support.postgres_stores import migrated_database
from tests.support.standing import Standing
from tests.support.stores import SetClock

T = TypeVar("T")
#: What the database draws by chance is what the test has set; the schema is then noted as it is.
_DICE = """
CREATE OR REPLACE FUNCTION langlauf.random_fraction() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT current_setting('langlauf.drawn')::float8
$$;
SELECT langlauf.record_schema();
"""
_TABLES = (
    *("job_rows", "event_rows", "result_rows", "job_chunks", "outbox"),
    *("lanes", "idempotency_keys", "waiting_counts", "pace", "batches"),
)
_FRESH = "; ".join(
    [*(f"DELETE FROM {name}" for name in _TABLES), "UPDATE lane_clock SET virtual_now = 0, served = 0, look_at = NULL"]
)
#: Rows that were deleted are walked over until they are cleared away.
_CLEAR = f"TRUNCATE {', '.join(_TABLES)}"
_CLEAR_AFTER = 100
#: What the driver sends again when its answer was lost.
_SENT_AGAIN = frozenset({"renew", "cancel"})


class OneConnection:
    """Stands for each of the store's connections; its statements are part of the transaction of a step."""

    def __init__(self, connection: Any, clock: SetClock) -> None:
        self.connection = connection
        self.clock = clock
        self.twice = False

    async def call(self, function: str, *values: Any, **_: Any) -> Any:
        """The one value that a function gives; nobody asks for the time, which is set."""
        if function == "moment":
            return self.clock.now()
        statement = f"SELECT {call_sql(function, len(values))}"
        answer = await self.connection.fetchval(statement, *values)
        if self.twice and function in _SENT_AGAIN:
            _same(function, answer, await self.connection.fetchval(statement, *values))
        return answer

    async def rows(self, function: str, *values: Any, **_: Any) -> list[Any]:
        """The rows that a function gives."""
        return list(await self.connection.fetch(f"SELECT * FROM {call_sql(function, len(values))}", *values))

    async def call_once(self, function: str, *values: Any) -> Any:
        """The one value of a function that is told whether it was asked before."""
        statement = f"SELECT {call_sql(function, len(values) + 1)}"
        answer = await self.connection.fetchval(statement, *values, False)
        if self.twice:
            again = await self.connection.fetchval(statement, *values, True)
            if function == "record":  # that a job completed as it was told to is seen by the job, beyond the database
                again = [
                    first if write["kind"] == "completed" else said
                    for first, said, write in zip(answer, again, values[2], strict=True)
                ]
            _same(function, answer, again)
        return answer

    async def rows_once(self, function: str, *values: Any, **_: Any) -> list[Any]:
        """The same for rows."""
        statement = f"SELECT * FROM {call_sql(function, len(values) + 1)}"
        answer = list(await self.connection.fetch(statement, *values, False))
        if self.twice and function == "submit":
            _same_submissions(answer[0], (await self.connection.fetch(statement, *values, True))[0])
        elif self.twice:
            again = await self.connection.fetch(statement, *values, True)
            # What a claim canceled as too late is told once: it has no attempt.
            told = [tuple(row) for row in answer if row["attempt"]]
            _same(function, sorted(told), sorted(map(tuple, again)))
        return answer


def _same(function: str, first: Any, second: Any) -> None:
    if first != second:
        raise Disagreement(f"{function} answered {first!r}, and {second!r} when it was asked again")


def _same_submissions(first: Any, second: Any) -> None:
    """A retry knows the jobs of the first try, and finds those that it started or claimed."""
    made = [said.replace("started", "accepted") for said in first["outcomes"]]
    _same("submit", made, [said.replace("known", "accepted") for said in second["outcomes"]])
    started = [said for said in first["outcomes"] if said.startswith("started")]
    claimed = [tuple(row) for row in first["claims"] or () if row["attempt"]]
    found = [tuple(row) for row in second["claims"] or () if row["attempt"]]
    if started:
        _same("submit", len(started), len(found))
    elif first["claims"] is not None:
        _same("submit", sorted(claimed), sorted(found))


class PostgresWorld:
    """One database, for one schedule after another. Its functions may be altered, to see whether that shows."""

    arrival = "length(job.job_id), job.job_id"
    sweeps_at_once = True

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._clock = SetClock()
        self.url = url
        self.connection: Any = self._do(asyncpg.connect(url))
        self._run(SESSION_SETTINGS + "SET synchronous_commit = off;" + _DICE)
        self._one_connection = OneConnection(self.connection, self._clock)
        self._store = PostgresStore(url, hints=Hints(), clock=self._clock, notify=False)
        self._store._connections = dict.fromkeys(self._store._connections, self._one_connection)  # type: ignore[arg-type]
        self._played = 0

    def close(self) -> None:
        """Lets go of the connection."""
        self._do(self.connection.close())
        self._loop.close()

    def definition(self, function: str) -> str:
        """A function of the schema as the database has it."""
        [[text]] = self.rows(
            "SELECT pg_get_functiondef(oid) FROM pg_proc"
            f" WHERE pronamespace = 'langlauf'::regnamespace AND proname = '{function}'"
        )
        return str(text)

    @contextmanager
    def altered(self, edits: Sequence[Edit]) -> Iterator[None]:
        """While this lasts, some functions say something else."""
        before = {edit.function: self.definition(edit.function) for edit in edits}
        after = dict(before)
        for edit in edits:
            after[edit.function] = edit.applied_to(after[edit.function])
        try:
            for definition in after.values():
                self._run(definition)
            yield
        finally:
            for definition in before.values():
                self._run(definition)

    def fresh(self, jitter: float) -> None:
        """Every table as the migrations left it."""
        if self._played % _CLEAR_AFTER == 0:
            self._run(_CLEAR)
        self._played += 1
        self._run(f"{_FRESH}; SET langlauf.drawn = '{jitter!r}'")

    def transact(self, operations: Sequence[Any], now: Instant, fate: Fate) -> list[Any]:
        """One transaction with all operations; what they answered, whoever hears of it."""
        self._clock.time = now
        self._one_connection.twice = fate is Fate.UNTOLD
        try:
            return self._do(self._transact(operations, fate))
        except (asyncpg.PostgresError, asyncpg.InterfaceError, LookupError, TypeError, ValueError) as error:
            raise Disagreement(f"the store broke down: {type(error).__name__}: {error}") from error

    async def _transact(self, operations: Sequence[Any], fate: Fate) -> list[Any]:
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            answers: list[Any] = []
            groups = [(kind, list(batch)) for kind, batch in groupby(operations, key=type)]
            for (kind, batch), (following, claims) in pairwise([*groups, (object, [])]):
                if kind is NewJob and following is ClaimRequest and self.order(batch) == list(range(len(batch))):
                    answers += await self._submit_and_claim(batch, claims.pop(0))
                elif batch:
                    answers += await _VERBS[kind](self._store, batch)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.rollback() if fate is Fate.UNDONE else transaction.commit())
        return answers

    async def _submit_and_claim(self, batch: Sequence[NewJob], request: ClaimRequest) -> list[Any]:
        """A claim that has been waiting is part of the statement that submits."""
        standing = Standing(self._store, request)
        try:
            answers = await self._store._submit_batch(batch)
        finally:
            claims = await standing.end()
        return [*answers, claims]

    def order(self, operations: Sequence[Any]) -> list[int]:
        """As the driver's rounds have it: no two of a statement are for the same job, key or input."""
        places: list[int] = []
        for kind, batch in groupby(operations, key=type):
            one = list(batch)
            start = len(places)
            places += [start + place for part in rounds(one, _KEYS[kind](one)) for place in part]
        return places

    def seen(self, *queries: str) -> list[list[Row]]:
        """What queries find now, asked in one go."""
        [found] = self.rows(f"SELECT {', '.join(f'ARRAY(SELECT one FROM ({sql}) AS one)' for sql in queries)}")
        return [[tuple(row) for row in rows] for rows in found]

    def rows(self, sql: str) -> list[Row]:
        """Looks into the tables past the store."""
        return [tuple(row) for row in self._do(self.connection.fetch(sql))]

    def _run(self, sql: str) -> None:
        self._do(self.connection.execute(sql))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


async def _sweep(store: PostgresStore, sweeps: Sequence[SweepAll]) -> list[Any]:
    return [await store.sweep(grace_seconds=one.grace_seconds, backoff=one.backoff, limit=one.limit) for one in sweeps]


async def _claim(store: PostgresStore, requests: Sequence[ClaimRequest]) -> list[Any]:
    return [await store.claim(request) for request in requests]


async def _renew(store: PostgresStore, beats: Sequence[RenewRequest]) -> list[Any]:
    return [await store.renew(beat.leases, lease_seconds=beat.lease_seconds) for beat in beats]


async def _tidy(store: PostgresStore, wishes: Sequence[TidyLanes]) -> list[Any]:
    return [await store._connections["maintenance"].call("tidy", store._at) for _ in wishes]


async def _record(store: PostgresStore, writes: Sequence[Recording]) -> list[Any]:
    """As the database answers; that an end stands although it was refused is known beyond it, and shown elsewhere."""
    with patch.object(record, "accept_committed", _as_answered):
        return await store._record_batch(writes)


async def _as_answered(_: Sequence[Recording], answers: Sequence[bool], __: Any) -> list[bool]:
    return list(answers)


_VERBS: dict[type, Callable[[PostgresStore, Any], Coroutine[Any, Any, list[Any]]]] = {
    NewJob: PostgresStore._submit_batch,
    ClaimRequest: _claim,
    RenewRequest: _renew,
    Recording: _record,
    CancelRequest: PostgresStore._cancel_batch,
    SweepAll: _sweep,
    TidyLanes: _tidy,
}
#: What no two operations of one statement have in common.
_KEYS: dict[type, Callable[[Any], Callable[[Any], Any]]] = defaultdict(
    lambda: lambda _: lambda _: (),
    {NewJob: submit.keys_of_batch, Recording: lambda _: record.keys_of},
)


@contextmanager
def postgres_world() -> Iterator[PostgresWorld]:
    """A world on a database of its own."""
    with migrated_database() as url:
        world = PostgresWorld(url)
        try:
            yield world
        finally:
            world.close()
