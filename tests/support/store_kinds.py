"""Stores of every kind for tests: opened with a clock, and queried directly, past the driver."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.snapshot import check_database
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.snapshot import check_file
from langlauf.store.tools.verify import Violation
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database
from tests.support.sqlite_edits import GUARDS
from tests.support.stores import JobFactory, SetClock, query

T = TypeVar("T")
Scene = Callable[[Store, JobFactory, SetClock], Awaitable[T]]


class StoreUnderTest(NamedTuple):
    """The location of one store: a file, `:memory:` or a database."""

    kind: str
    place: str

    def play(self, scene: Scene[T], clock: SetClock | None = None) -> T:
        """Open the store, run a coroutine with it, and close it."""
        clock = clock or SetClock()

        async def main() -> T:
            store = await self.opened(clock)
            try:
                return await scene(store, JobFactory(store, clock), clock)
            finally:
                await store.close()

        return asyncio.run(main())

    async def opened(self, clock: SetClock) -> Store:
        """Open the store."""
        if self.kind == "postgres":
            return await PostgresStore.open(self.place, clock=clock, hints=Hints())
        return await SqliteStore.open(self.place, clock=clock, hints=Hints())

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Query the database directly; ? is a parameter."""
        if self.kind != "postgres":
            return query(self.place, sql, *values)
        numbers = iter(range(1, len(values) + 1))
        statement = re.sub(r"\?", lambda _: f"${next(numbers)}", sql)
        tables = r"\b(jobs|job_\w+|notifications|lanes|leases|idempotency_keys|waiting_counts)\b(?=[ ;,)]|$)"
        named = re.sub(rf"(FROM|UPDATE|INTO|JOIN|TABLE|ON) {tables}", r"\1 langlauf.\2", statement)
        named = named.replace("UPDATE langlauf.notifications", "UPDATE langlauf.outbox")  # a message that is stored
        return [tuple(row) for row in fetch(self.place, named, *values)]

    def without_constraints(self, *statements: str) -> None:
        """Run statements with constraints and triggers disabled."""
        if self.kind != "postgres":
            triggers = query(self.place, GUARDS)
            dropped = "".join(f"DROP TRIGGER {name};" for name, _ in triggers)
            query(self.place, f"PRAGMA ignore_check_constraints = ON; {dropped} {';'.join(statements)}")
            return
        drop = (
            "DO $$ DECLARE one record; BEGIN FOR one IN SELECT conrelid::regclass AS of, conname FROM pg_constraint"
            " WHERE connamespace = 'langlauf'::regnamespace AND contype = 'c' LOOP"
            " EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.of, one.conname); END LOOP; END $$"
        )
        settings = "SET search_path = langlauf; SET session_replication_role = replica"
        execute(self.place, drop, "; ".join((settings, *statements)))

    def check(self, clock: SetClock) -> list[Violation]:
        """Return violations of the rules of verify, warnings included."""
        found = check_database if self.kind == "postgres" else check_file
        return list(found(self.place, now=clock.now()))


@contextmanager
def store_under_test(kind: str, folder: Path) -> Iterator[StoreUnderTest]:
    """Yield an empty store of a kind: `sqlite`, `memory` or `postgres`."""
    if kind == "postgres":
        with migrated_database() as url:
            yield StoreUnderTest(kind, url)
    else:
        yield StoreUnderTest(kind, ":memory:" if kind == "memory" else str(folder / "s.db"))
