"""Verify, export and import of a database: what only a database has, and what the commands print."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.maintenance import verify
from langlauf.cli.transfer import export_store, import_store
from langlauf.compat.postgres_import import import_v1
from langlauf.compat.v1_import import import_v1 as import_into_file
from langlauf.domain.errors import StoreError
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.snapshot import check_database
from tests.support.broken_store import Breakable, breakable
from tests.support.postgres import execute, fetch
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import JobFactory, SetClock
from tests.support.v1_store import FULL, earlier_store

_CHANGES = {
    "trigger api_keys.api_keys_stay is missing": "DROP TRIGGER api_keys_stay ON api_keys",
    "trigger api_keys.api_keys_stay is changed": "ALTER TABLE api_keys DISABLE TRIGGER api_keys_stay",
    "table job_rows is changed": "ALTER TABLE job_rows DISABLE ROW LEVEL SECURITY",
    "policy job_rows.own_org is missing": "DROP POLICY own_org ON job_rows",
    "policy job_rows.own_org is changed": "ALTER POLICY own_org ON job_rows USING (true)",
    "index idx_jobs_lane_due is missing": "DROP INDEX idx_jobs_lane_due",
    "column job_rows.step is changed": "ALTER TABLE job_rows ALTER COLUMN step SET DEFAULT 'none'",
    "function tidy(bigint) is changed": "ALTER FUNCTION tidy SECURITY INVOKER",
    "view job_views is changed": "ALTER VIEW job_views RESET (security_invoker)",
    "nothing says what the migrations made": "DELETE FROM schema_made",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    """A database with a job in every state, to be broken repeatedly."""
    with breakable("postgres", tmp_path_factory.mktemp("broken")) as store:
        yield store


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[StoreUnderTest]:
    """An empty store."""
    with store_under_test("postgres", tmp_path) as made:
        yield made


@pytest.mark.parametrize("words", _CHANGES)
def test_a_changed_schema_is_reported(broken: Breakable, words: str) -> None:
    """Every object of the migrations is reported if it is missing or changed."""
    found = broken.after(_CHANGES[words])
    assert {(one.rule, one.evidence) for one in found} == {("schema_intact", words)}


def test_additional_objects_are_allowed(broken: Breakable) -> None:
    """An index, a column or a function of one's own is allowed."""
    assert (
        broken.after(
            "CREATE INDEX mine ON job_rows (trace); ALTER TABLE job_rows ADD COLUMN mine text;"
            "CREATE TABLE own (id text);"
            "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'"
        )
        == []
    )


def test_another_release_is_compared_by_name(broken: Breakable) -> None:
    """What was recorded under another release of PostgreSQL is compared by name only."""
    sql = "UPDATE schema_made SET server = server - 1, digest = 'other'"
    assert broken.after(sql) == []
    assert [one.evidence for one in broken.after(f"{sql}; DROP INDEX idx_jobs_lane_due")] == [
        "index idx_jobs_lane_due is missing"
    ]


def test_an_invalid_index_is_reported(broken: Breakable) -> None:
    """An index whose build failed finds less than there is."""
    sql = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('langlauf.idx_jobs_finished')"
    assert [(one.rule, one.evidence) for one in broken.after(sql)] == [
        ("integrity", "the index idx_jobs_finished is not valid")
    ]


def test_a_check_reads_one_snapshot_and_writes_nothing(bed: StoreUnderTest) -> None:
    """Concurrent writes do not show in a check, and it writes nothing itself."""
    clock = SetClock()

    async def scene(store: PostgresStore, make: JobFactory, clock: SetClock) -> None:
        await make.one_of_each()

    bed.play(scene, clock)  # type: ignore[arg-type]
    steps = 0

    def write_meanwhile(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            execute(bed.place, "DELETE FROM langlauf.lanes")

    assert list(check_database(bed.place, now=clock.now(), watch=write_meanwhile)) == []
    assert {one.rule for one in bed.check(clock)} == {"lane_counts", "lane_due"}


def run(command: object, *arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])  # type: ignore[arg-type]


def test_the_commands_take_a_database(bed: StoreUnderTest, tmp_path: Path) -> None:
    """Imported jobs are sound and are exported as from a file."""
    earlier, out, from_file = tmp_path / "earlier.json", tmp_path / "out.json", tmp_path / "file.json"
    earlier.write_text(json.dumps(FULL))
    brought = run(import_store, earlier, "--store", bed.place, "--json")
    assert json.loads(brought.stdout)["jobs"] == len(FULL["jobs"])
    assert "nothing was changed" in run(import_store, earlier, "--store", bed.place).stdout
    checked = run(verify, "--store", bed.place, "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["ok"]) == (0, True)
    assert run(export_store, out, "--store", bed.place).exit_code == 0
    import_into_file(str(tmp_path / "s.db"), earlier, default_analysis="address")
    assert run(export_store, from_file, "--store", tmp_path / "s.db").exit_code == 0
    assert _without_times(out) == _without_times(from_file)


def _without_times(path: Path) -> object:
    """Return a document without the time and the ids that an import makes."""
    document = json.loads(path.read_text())
    assert document["jobs"].keys() == FULL["jobs"].keys()
    jobs = {key: {k: v for k, v in job.items() if k not in _OF_THE_IMPORT} for key, job in document["jobs"].items()}
    kinds = {
        key: [(event["event_seq"], event["event_type"]) for event in log] for key, log in document["events"].items()
    }
    return jobs, kinds, document["results"], document["notifications"]


_OF_THE_IMPORT = frozenset({"updated_at", "next_attempt_at", "request_id", "trace_id", "imported_at"})


def test_a_broken_database_ends_the_command_with_1(bed: StoreUnderTest) -> None:
    """The list of faults is printed; a missing database exits with 2, and no password is shown."""

    async def scene(store: PostgresStore, make: JobFactory, clock: SetClock) -> None:
        await make.queued()

    bed.play(scene)  # type: ignore[arg-type]
    execute(bed.place, "UPDATE langlauf.event_rows SET input = NULL")
    found = run(verify, "--store", bed.place)
    assert found.exit_code == 1
    assert "broken: input_kept" in found.stdout
    away = run(verify, "--store", "postgresql://me:hunter22@127.0.0.1:1/nowhere")
    assert away.exit_code == 2
    assert "hunter22" not in away.output


def test_a_job_that_is_there_already_is_not_imported(bed: StoreUnderTest, tmp_path: Path) -> None:
    """A file with a known job is not imported, and other files still are."""
    earlier = tmp_path / "one.json"
    earlier.write_text(json.dumps(FULL))
    assert import_v1(bed.place, earlier, default_analysis="address").imported
    other = tmp_path / "other.json"
    other.write_text(json.dumps(FULL | {"schema_version": 2}))
    before = fetch(bed.place, "SELECT count(*) FROM langlauf.job_events")
    with pytest.raises(StoreError, match="is in the store already"):
        import_v1(bed.place, other, default_analysis="address")
    assert fetch(bed.place, "SELECT count(*) FROM langlauf.job_events") == before


def test_two_programs_import_once(bed: StoreUnderTest, tmp_path: Path) -> None:
    """Imports are serialised: of two at the same time, one imports the jobs."""
    earlier = tmp_path / "one.json"
    earlier.write_text(json.dumps(FULL))

    async def both() -> list[bool]:
        brought = partial(import_v1, bed.place, earlier, default_analysis="address")
        runs = [asyncio.to_thread(brought) for _ in range(3)]
        return [report.imported for report in await asyncio.gather(*runs)]

    assert sorted(asyncio.run(both())) == [False, False, True]
    assert list(check_database(bed.place)) == []


def test_imported_jobs_queue_behind_waiting_ones(bed: StoreUnderTest, tmp_path: Path) -> None:
    """A lane with jobs continues its tickets, and its count grows by the imported jobs."""

    async def scene(store: PostgresStore, make: JobFactory, clock: SetClock) -> None:
        await make.queued()

    bed.play(scene)  # type: ignore[arg-type]
    [[analysis]] = bed.query("SELECT analysis FROM jobs")
    earlier = tmp_path / "one.json"
    jobs = {f"j{number}": {"status": "queued", "org_id": "org-a"} for number in range(3)}
    earlier.write_text(json.dumps(earlier_store() | {"jobs": jobs}))
    assert import_v1(bed.place, earlier, default_analysis=analysis).jobs == 3
    assert sorted(ticket for (ticket,) in bed.query("SELECT ticket FROM jobs")) == [1, 2, 3, 4]
    assert bed.query("SELECT waiting, default_head, default_last FROM lanes") == [(4, 0, 4)]
    assert list(check_database(bed.place)) == []
