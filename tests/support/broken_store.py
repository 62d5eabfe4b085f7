"""Stores to be broken past their constraints and triggers, again and again, and what a check finds then."""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw

from langlauf.hints import Hints
from langlauf.store.postgres.blocking_connection import BlockingConnection
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.snapshot import PostgresSnapshot
from langlauf.store.sqlite.snapshot import check_file
from langlauf.store.tools.verify import Violation, check
from tests.support.outbox import told
from tests.support.postgres import execute, fetch, fresh_database
from tests.support.sqlite_edits import GUARDS, make_writable
from tests.support.stores import JobFactory, SetClock, with_store

#: What the faults are written with, for a database that does not have it.
_WORDS = """
CREATE FUNCTION json_set(words text, path text, value anyelement) RETURNS text LANGUAGE sql AS
$$ SELECT (words::jsonb || jsonb_build_object(substr(path, 3), value))::text $$;
CREATE FUNCTION json_set(words text, path text, value text) RETURNS text LANGUAGE sql AS
$$ SELECT (words::jsonb || jsonb_build_object(substr(path, 3), value))::text $$;
"""
#: Lets records be changed and deleted under the names that people know, whatever they are kept as.
_WRITABLE = """
CREATE FUNCTION change_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'jobs' THEN
        DELETE FROM job_rows WHERE job = OLD.job;
        INSERT INTO jobs SELECT NEW.*;
    ELSIF TG_TABLE_NAME = 'job_results' THEN
        DELETE FROM result_rows WHERE job = OLD.job AND result_seq = OLD.result_seq;
        INSERT INTO job_results SELECT NEW.*;
    ELSIF TG_TABLE_NAME = 'job_inputs' THEN
        UPDATE event_rows SET input = NEW.payload WHERE job = OLD.job AND event_seq = 1;
    ELSIF TG_TABLE_NAME = 'leases' THEN
        UPDATE job_rows SET lease_expires_at = NEW.expires_at WHERE job = OLD.job;
    ELSE
        UPDATE event_rows SET event_seq = NEW.event_seq, event_type = NEW.event_type, occurred_at = NEW.occurred_at,
            actor_type = NEW.actor_type, payload_json = NEW.payload_json
        WHERE job = OLD.job AND event_seq = OLD.event_seq;
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION delete_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'job_inputs' THEN
        UPDATE event_rows SET input = NULL WHERE job = OLD.job AND event_seq = 1;
    ELSIF TG_TABLE_NAME = 'leases' THEN
        UPDATE job_rows SET worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL WHERE job = OLD.job;
    ELSIF TG_TABLE_NAME = 'job_events' THEN
        DELETE FROM event_rows WHERE job = OLD.job AND event_seq = OLD.event_seq AND input IS NULL;
        UPDATE event_rows SET event_type = NULL, feed_mark = NULL WHERE job = OLD.job AND event_seq = OLD.event_seq;
    ELSE
        DELETE FROM outbox WHERE notification_id = OLD.notification_id AND org_id = OLD.org_id;
    END IF;
    RETURN OLD;
END $$;
DO $$ DECLARE name text; BEGIN
    FOREACH name IN ARRAY '{job_inputs, leases, job_events, notifications}'::text[] LOOP
        EXECUTE format('CREATE TRIGGER deletes INSTEAD OF DELETE ON %I
            FOR EACH ROW EXECUTE FUNCTION delete_record()', name);
    END LOOP;
    FOREACH name IN ARRAY '{jobs, job_results, job_inputs, leases, job_events}'::text[] LOOP
        EXECUTE format('CREATE TRIGGER changes INSTEAD OF UPDATE ON %I
            FOR EACH ROW EXECUTE FUNCTION change_record()', name);
    END LOOP;
END $$;
"""


class Breakable(NamedTuple):
    """A store with a job in every state, and what is found after some statements; each begins with the sound store."""

    kind: str
    ids: dict[str, str]
    after: Callable[[str], list[Violation]]


@contextmanager
def breakable(kind: str, folder: Path) -> Iterator[Breakable]:
    """A store of this kind."""
    if kind == "sqlite":
        yield _file(folder)
        return
    with fresh_database() as url:
        clock = SetClock()
        ids = _fill(url, clock)
        with BlockingConnection(url) as connection:
            yield Breakable(kind, ids, partial(_found_after, connection, PostgresSnapshot(url, connection), ids, clock))


async def _every_kind(make: JobFactory) -> dict[str, str]:
    return await make.one_of_each() | await told(make)


def _file(folder: Path) -> Breakable:
    path, copy, clock = folder / "sound.db", folder / "broken.db", SetClock()
    ids = with_store(path, clock, lambda store: _every_kind(JobFactory(store, clock)))

    def after(sql: str) -> list[Violation]:
        for old in folder.glob(f"{copy.name}*"):
            old.unlink()
        shutil.copy(path, copy)
        connection = apsw.Connection(str(copy))
        try:
            connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
            triggers = connection.execute(GUARDS).fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            make_writable(connection)
            connection.execute(sql, ids)
            for _, trigger in triggers:
                connection.execute(str(trigger))
        finally:
            connection.close()
        return list(check_file(str(copy), now=clock.now()))

    return Breakable("sqlite", ids, after)


def _fill(url: str, clock: SetClock) -> dict[str, str]:
    """Makes the jobs, and removes constraints and triggers as if it had always been without them."""

    async def fill() -> dict[str, str]:
        store = await PostgresStore.open(url, hints=Hints(), clock=clock)
        try:
            return await _every_kind(JobFactory(store, clock))
        finally:
            await store.close()

    ids = asyncio.run(fill())
    constraints = fetch(
        url,
        "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint"
        " WHERE connamespace = 'langlauf'::regnamespace AND contype = 'c' UNION ALL"
        " SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger"
        " JOIN pg_class ON pg_class.oid = tgrelid"
        " WHERE relname IN ('job_rows', 'event_rows') AND NOT tgisinternal",
    )
    execute(
        url, *(row[0] for row in constraints), f"SET search_path = langlauf; {_WORDS}{_WRITABLE} SELECT record_schema()"
    )
    return ids


def _found_after(
    connection: BlockingConnection, snapshot: PostgresSnapshot, ids: dict[str, str], clock: SetClock, sql: str
) -> list[Violation]:
    """In a transaction that is taken back: neither the faults nor the check leave a trace."""
    named = re.sub(r"(?<!['\w]):([a-z]\w+)", lambda match: f"'{ids[match[1]]}'", sql).replace("char(10)", "chr(10)")
    found: list[Violation] = []
    with suppress(_TakenBackError), connection.transaction():
        connection.execute(f"SET LOCAL ROLE NONE; {named}")
        found += check(snapshot, clock.now())
        raise _TakenBackError
    return found


class _TakenBackError(Exception):
    """Ends a transaction that is not to be kept."""
