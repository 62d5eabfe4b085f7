"""Stores in good health, to be given one fault at a time, and what the command says about them."""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.clock import Clock, monotonic
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.version import VERSION
from tests.support.postgres import execute, fetch
from tests.support.stores import JobFactory, query

#: A lease so long that a worker which reports three times in it is not silent while the tests go on.
_LEASE_SECONDS = 1_800.0
SETTINGS = {"LANGLAUF_LEASE_SECONDS": f"{_LEASE_SECONDS:g}", "LANGLAUF_SWEEP_SECONDS": "60"}
_OURS = ("LANGLAUF_", "ASYNC_JOB", "API_AUTH_TOKEN")


class RealTime:
    """The time of a store, for a maker that would move its clock on: this one moves by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> Instant:
        return self._clock.now()

    def pass_(self, seconds: float) -> None:
        """Time passes anyway."""


class DoctorReport(NamedTuple):
    """What the command said."""

    exit_code: int
    levels: dict[str, str]
    findings: dict[str, dict[str, Any]]

    @property
    def wrong(self) -> dict[str, str]:
        """Everything that is not well."""
        return {name: level for name, level in self.levels.items() if level != "ok"}


class CheckedStore(NamedTuple):
    """A store of one kind."""

    kind: str
    place: str
    folder: Path
    #: what is wrong with its surroundings, whatever the store is like
    given: frozenset[str] = frozenset()

    def examine(self, *flags: str, **settings: str) -> DoctorReport:
        """Runs the command on it."""
        outside = {name: None for name in os.environ if name.startswith(_OURS)}
        env: Mapping[str, str | None] = {**outside, **SETTINGS, **settings}
        said = CliRunner().invoke(main, ["doctor", "--store", self.place, "--json", *flags], env=env)
        assert said.stdout, said.output
        findings = {one["name"]: one for one in json.loads(said.stdout)["findings"]}
        levels = {name: one["level"] for name, one in findings.items() if name not in self.given}
        return DoctorReport(said.exit_code, levels, findings)

    def run(self, *statements: str) -> None:
        """Changes the store as no driver would."""
        if self.kind == "postgres":
            execute(self.place, f"SET search_path = langlauf; {';'.join(statements)}")
        else:
            query(self.place, ";".join(statements))

    def force(self, statement: str) -> None:
        """Changes rows although triggers forbid it; they are there again afterwards."""
        if self.kind == "postgres":
            self.run("SET session_replication_role = replica", statement)
            return
        triggers = query(self.place, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        self.run(*(f"DROP TRIGGER {name}" for name, _ in triggers), statement)
        for _, sql in triggers:
            query(self.place, str(sql))

    def now(self) -> Instant:
        """The time of this machine, which is the store's as well."""
        if self.kind == "postgres":
            return int(fetch(self.place, "SELECT langlauf.moment(NULL)")[0][0])
        return cast("Instant", self.use(_now))

    def use(self, scene: Callable[[Store], Awaitable[Any]], *, inline: int = 1_000_000) -> Any:
        """Does something through its driver, with blobs beside it."""

        async def run() -> Any:
            store = await opened(self.kind, self.place)
            store.blobs.use(FileBlobs(self.folder / "blobs"), largest_inline=inline, seconds=10)
            try:
                return await scene(store)
            finally:
                await store.close()

        return asyncio.run(run())


async def opened(kind: str, place: str) -> Store:
    """A store by its driver, with its own clock."""
    if kind == "postgres":
        return await PostgresStore.open(place, hints=Hints(), notify=False)
    return await SqliteStore.open(place, hints=Hints())


async def _now(store: Store) -> Instant:
    return store.clock.now()


def report(store: Store, worker_id: str = "worker-1", **changes: Any) -> WorkerReport:
    """A worker that is well."""
    usual: dict[str, Any] = {
        "worker_id": worker_id,
        "host": "host-1",
        "pid": 4711,
        "version": VERSION,
        "analyses": ("survey",),
        "slots": 8,
        "busy": 0,
        "every_seconds": _LEASE_SECONDS / 3,
        "started_at": store.clock.now(),
        "stopping": False,
    }
    return WorkerReport(**usual | changes)


async def healthy(store: Store) -> None:
    """A worker, fresh duties, and a job that has ended."""
    await store.workers.save_report(report(store))
    await store.duties.record_success("sweep", "host-1")
    await store.duties.record_success("retention", "host-1")
    await maker(store).completed()


def maker(store: Store) -> JobFactory:
    """Makes jobs at the store's own time."""
    return JobFactory(store, RealTime(store.clock))  # type: ignore[arg-type]  # it has what a maker asks for


async def held(store: Store, worker_id: str = "worker-1") -> Claim:
    """A job that a worker has just begun, of an analysis that it knows."""
    job = await maker(store).queued()
    await store.workers.save_report(report(store, worker_id, analyses=("survey", job.analysis)))
    request = ClaimRequest(
        worker_id=worker_id, slots=1, analyses=(job.analysis,), lease_seconds=_LEASE_SECONDS, max_running=100
    )
    [claim] = await store.claim(request)
    return claim


async def with_blob(store: Store) -> str:
    """A completed job whose result lies outside of the store."""
    claim = await held(store)
    assert await store.record(claim.lease, Completed(result_id=claim.lease.job_id, payload='{"long": "result"}'))
    return claim.lease.job_id


#: The server that all tests share does not wait for its disk.
OF_SHARED_SERVER = frozenset({"server_durability", "dead_rows"})
_EMPTY = """
DO $$ DECLARE one regclass; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR one IN SELECT class.oid FROM pg_class AS class
        WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r' AND (relname IN ('workers', 'duties')
            OR EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = class.oid AND attname = 'org_id' AND NOT attisdropped)) LOOP
        EXECUTE format('DELETE FROM %s', one);
    END LOOP;
END $$
"""


def copied(sound: Path, folder: Path) -> CheckedStore:
    """A file of its own for one fault: a copy of one that is well."""
    path = folder / "store.db"
    shutil.copy(sound, path)
    path.chmod(0o600)
    return CheckedStore("sqlite", str(path), folder)


def refilled(url: str, folder: Path, given: frozenset[str] = OF_SHARED_SERVER) -> CheckedStore:
    """A database that has what one in good health has, and nothing else, whatever was in it before."""
    execute(url, _EMPTY)
    made = CheckedStore("postgres", url, folder, given)
    made.use(healthy)
    return made


def set_up(url: str, setting: str) -> None:
    """Sets up the whole server, and waits until it is so."""
    name, _, value = setting.partition(" = ")
    execute(url, f"ALTER SYSTEM SET {setting}", "SELECT pg_reload_conf()")
    deadline = monotonic() + 60
    while fetch(url, f"SHOW {name}")[0][0] != value:
        assert monotonic() < deadline, f"{setting} was not taken over"
