"""Jobs that a command imported before any application was known: a server that has one names them at its start."""

import apsw

from langlauf.clock import Clock
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.job import payload_hash
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import refuse_unfinished, snapshot_of
from langlauf.store.sqlite.steady import clock_of
from langlauf.store.sqlite.transaction import Transaction
from langlauf.store.v1_records import UNNAMED


def name_jobs(db_path: str, analysis: str, *, clock: Clock | None = None) -> int:
    """Gives jobs without a name that of the application's default analysis; returns how many.

    Repeating it does nothing.
    """
    connection = open_connection(db_path)
    try:
        migrate(connection)
        refuse_unfinished(db_path, connection)
        queries = load("langlauf.store.sqlite", "writes.sql", "transfer.sql")
        if not connection.execute(queries["an_unnamed_job"]).fetchall():
            return 0
        clock = clock or clock_of(connection)
        connection.execute("BEGIN IMMEDIATE")
        count = _name(Transaction(connection, queries, clock.now()), analysis)
        connection.execute("COMMIT")
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {db_path} cannot be opened: {error}") from error
    finally:
        connection.close()  # what was not committed is gone
    return count


def has_unnamed_jobs(db_path: str) -> bool:
    """Whether some wait for their name; a file of another schema has none that could be told."""
    with snapshot_of(db_path, unfinished=True) as snapshot:
        return bool(list(snapshot.rows("an_unnamed_job")))


def _name(tx: Transaction, analysis: str) -> int:
    """Moves jobs from the lanes of no name to those of the analysis, behind what waits there."""
    jobs = tx.rows("unnamed_jobs")
    for org_id, waiting in tx.rows("unnamed_lanes"):
        tx.waiting(org_id, UNNAMED, -waiting)
        tx.waiting(org_id, analysis, waiting)
    changes = []
    for org_id, job_id, priority_class, queued, ticket, given, payload in jobs:
        known = None if payload is None else payload_hash(UNNAMED, payload)
        changes.append(
            {
                "org_id": org_id,
                "job_id": job_id,
                "analysis": analysis,
                "ticket": tx.next_ticket(org_id, analysis, priority_class) if queued else ticket,
                # A hash that the earlier system brought stays; one of our making covers the name.
                "payload_hash": payload_hash(analysis, payload) if given == known else given,
            }
        )
    tx.run_many("name_job", changes)
    tx.flush()
    tx.run("due_lanes_of", analysis=analysis)
    tx.run("forget_unnamed_lanes")
    tx.run("forget_unnamed_count")
    return len(changes)
