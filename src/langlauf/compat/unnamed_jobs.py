"""Jobs that a command imported before any application was known: a server that has one names them at its start."""

from collections.abc import Mapping

import apsw

from langlauf.compat.v1_records import UNNAMED
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.job import payload_hash
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import refuse_unfinished


def name_jobs(db_path: str, analysis: str) -> int:
    """Gives jobs without a name that of the application's default analysis; returns how many.

    Repeating it does nothing.
    """
    connection = open_connection(db_path)
    try:
        migrate(connection)
        refuse_unfinished(db_path, connection)
        queries = load("langlauf.store.sqlite", "transfer.sql")
        if not connection.execute(queries["an_unnamed_job"]).fetchall():
            return 0
        connection.execute("BEGIN IMMEDIATE")
        count = _name(connection, queries, analysis)
        connection.execute("COMMIT")
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {db_path} cannot be opened: {error}") from error
    finally:
        connection.close()  # what was not committed is gone
    return count


def _name(connection: apsw.Connection, queries: Mapping[str, str], analysis: str) -> int:
    """Moves jobs from the lanes of no name to those of the analysis, behind what waits there."""
    connection.execute(queries["make_analysis"], {"name": analysis})
    given: dict[tuple[str, str], int] = {}
    changes = []
    for org_id, job_id, priority_class, queued, ticket, kept, payload in connection.execute(queries["unnamed_jobs"]):
        lane = (org_id, priority_class)
        if queued:
            if lane not in given:
                values = {"org_id": org_id, "analysis": analysis, "priority_class": priority_class}
                given[lane] = connection.execute(queries["last_given_ticket"], values).get
            given[lane] += 1
        known = None if payload is None else payload_hash(UNNAMED, payload)
        changes.append(
            {
                "job_id": job_id,
                "analysis": analysis,
                "ticket": given[lane] if queued else ticket,
                # A hash that the earlier system brought stays; one of our making covers the name.
                "payload_hash": payload_hash(analysis, payload) if kept == known else kept,
            }
        )
    connection.executemany(queries["name_job"], changes)
    for query in ("forget_unnamed_lanes", "recount_lanes", "recount_waiting", "recount_running", "touch_all_orgs"):
        connection.execute(queries[query])
    return len(changes)
