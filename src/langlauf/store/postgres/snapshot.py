"""A consistent read-only snapshot of a database, and its verification, while servers run."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.migrate import migrations_in
from langlauf.store.postgres.blocking_connection import PAGE, WIDE_PAGE, BlockingConnection, Row
from langlauf.store.postgres.connection import parse_url
from langlauf.store.postgres.migrate import PACKAGE, applied_migrations
from langlauf.store.postgres.server import prepare
from langlauf.store.queries import load
from langlauf.store.tools.blocking_payloads import BlockingPayloads
from langlauf.store.tools.store_copy import half_copied
from langlauf.store.tools.verify import Violation, Watch, check, rule_queries

SPELLING = {"is_json": "is_json({})", "json": "{}::json"}
#: Rows per fetch of queries that return payloads.
_PAGES = {"hashed_inputs": 64, "every_job": 64, "every_chunk": WIDE_PAGE, "every_result": WIDE_PAGE}
_JOIN_BY_ID = re.compile(r"\b(result|event|former|input|lease|job)\.job_id = (job|event|result)\.job_id\b")


def _join_by_key(sql: str) -> str:
    """Return a query that joins the records of a job by its key, which is indexed, instead of its id."""
    return _JOIN_BY_ID.sub(r"\1.job = \2.job", sql)


class PostgresSnapshot:
    """Runs named queries on the snapshot of the connection's transaction."""

    def __init__(self, url: str, connection: BlockingConnection) -> None:
        self.connection = connection
        self._url = url
        rules = {name: _join_by_key(sql) for name, sql in rule_queries(SPELLING).items()}
        self._queries = load(PACKAGE, "verify.sql", "transfer.sql", "inspection.sql") | rules

    def knows(self, query: str) -> bool:
        return query in self._queries

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        return self.connection.stream(self._queries[query], page=_PAGES.get(query, PAGE), **values)

    def rows_now(self, query: str, /, **values: Any) -> list[Row]:
        with BlockingConnection(self._url) as connection, connection.transaction(read_only=True):
            return connection.fetch(self._queries[query], **values)

    def tables_of_orgs(self) -> list[str]:
        return [name for (name,) in self.rows("org_tables")]

    def rows_of_org(self, table: str, org_id: str) -> Iterator[dict[str, Any]]:
        named = '"' + table.replace('"', '""') + '"'
        sql = f"SELECT to_json(one)::text FROM {named} AS one WHERE org_id = :org_id"  # noqa: S608 - the database's own
        for (text,) in self.connection.stream(sql, page=WIDE_PAGE, org_id=org_id):
            yield msgspec.json.decode(text)

    def damages(self) -> Iterator[str]:
        return (words for (words,) in self.rows("damages"))

    def changed_objects(self) -> Iterator[str]:
        return (words for (words,) in self.rows("changed_objects"))


@contextmanager
def snapshot_of(url: str, *, unfinished: bool = False) -> Iterator[PostgresSnapshot]:
    """Open a snapshot; raise `StoreUnavailable` if the schema is another one, or if a copy into it is unfinished.

    With `unfinished`, the target of an unfinished copy is read too.
    """
    with BlockingConnection(url) as connection, connection.transaction(read_only=True):
        _refuse_other_schema(connection)
        if not unfinished:
            refuse_unfinished(connection)
        yield PostgresSnapshot(url, connection)


@contextmanager
def prepared(url: str) -> Iterator[BlockingConnection]:
    """Open a connection for writing, after migrating the database."""
    with BlockingConnection(url) as connection:
        connection.run(prepare(connection.connection, parse_url(url)))
        yield connection


def refuse_unfinished(connection: BlockingConnection) -> None:
    """Raise `StoreUnavailable` while a copy into the database is unfinished."""
    [[source]] = connection.fetch("SELECT copied_from()")
    if source is not None:
        raise StoreUnavailable(half_copied(connection.name, source))


def _refuse_other_schema(connection: BlockingConnection) -> None:
    found, known = connection.run(applied_migrations(connection.connection)), len(migrations_in(PACKAGE))
    if found != known:
        hint = "run `langlauf migrate`" if found < known else "use the newer program"
        raise StoreUnavailable(f"{connection.name} has schema {found}, this program needs {known}: {hint}")


def check_database(
    url: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """Yield violated rules, warnings included, as they are found. Without `payloads` blobs are only counted."""
    with snapshot_of(url) as snapshot:
        [[at]] = snapshot.rows("now")
        yield from check(snapshot, at if now is None else now, watch=watch, payloads=payloads)
