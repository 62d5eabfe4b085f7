"""A field of a job in PostgreSQL: one column, and all reads and writes have it."""

import asyncio
from pathlib import Path

import asyncpg

from langlauf.domain.job import JOB_FIELDS
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.migrate import PACKAGE, functions_in, migrate
from langlauf.store.sql import migrations_in
from tests.support.extra_field import NOTE, ask, program_with_a_note
from tests.support.postgres import fetch
from tests.support.stores import SetClock
from tests.support.submissions import accept, read_job

#: The beginning of the view of jobs.
VIEW = ", ".join(JOB_FIELDS[:5])
FIRST_COLUMN = "SELECT attname FROM pg_attribute WHERE attrelid = 'langlauf.job_views'::regclass AND attnum = 1"


def test_a_new_field_is_one_column(database: str, tmp_path: Path) -> None:
    """A program with another field stores, shows, describes, exports, imports and copies it."""
    told = ask(program_with_a_note(tmp_path), database, tmp_path)
    assert told.pop("document") is not None
    assert told == dict.fromkeys(("wire", "client", "export", "copy"), NOTE)


def test_a_host_reads_jobs_beside_one_of_a_later_release(database: str) -> None:
    """The later release has replaced the views: an unknown field stands among the others."""
    ours = functions_in()
    theirs = [step._replace(sql=step.sql.replace(f"SELECT {VIEW}", f"SELECT kept AS later, {VIEW}")) for step in ours]
    assert theirs != ours

    async def main() -> None:
        connection = await asyncpg.connect(database)
        try:
            await migrate(connection, migrations_in(PACKAGE), theirs)
            await connection.execute("UPDATE langlauf.installed SET release = '999.0'")
        finally:
            await connection.close()
        store = await PostgresStore.open(database, hints=Hints())
        try:
            job = await accept(store, SetClock())
            found = (await read_job(store, job.job_id)).job
            assert (found.job_id, found.org_id, found.queued_at, found.timeout_seconds) == (
                job.job_id,
                job.org_id,
                job.queued_at,
                job.timeout_seconds,
            )
        finally:
            await store.close()

    asyncio.run(main())
    assert fetch(database, FIRST_COLUMN)[0]["attname"] == "later"
