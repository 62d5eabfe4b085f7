"""A database as it was at one moment: read-only, beside running servers, row by row."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from langlauf.domain.errors import StoreUnavailable
from langlauf.store.migrate import migrations_in
from langlauf.store.postgres.address import read_address
from langlauf.store.postgres.blocking import PAGE, WIDE_PAGE, BlockingConnection, Row
from langlauf.store.postgres.migrating import PACKAGE, applied_migrations
from langlauf.store.postgres.opening import prepare
from langlauf.store.queries import load
from langlauf.store.tools.store_copy import half_copied
from langlauf.store.tools.verify import rule_queries

SPELLING = {"is_json": "is_json({})", "json": "{}::json"}
#: Queries whose rows carry payloads.
_WIDE = {"hashed_inputs": 64, "every_job": 64, "every_chunk": WIDE_PAGE, "every_result": WIDE_PAGE}


_records = re.compile(r"\b(result|event|former|input|lease|job)\.job_id = (job|event|result)\.job_id\b")


def _by_key(sql: str) -> str:
    """A query with the records of a job looked up by its key: an index has that, and not the id."""
    return _records.sub(r"\1.job = \2.job", sql)


class PostgresSnapshot:
    """What queries by name give, all of one moment: that of the transaction of the connection."""

    def __init__(self, url: str, connection: BlockingConnection) -> None:
        self.connection = connection
        self._url = url
        rules = {name: _by_key(sql) for name, sql in rule_queries(SPELLING).items()}
        self._queries = load(PACKAGE, "verify.sql", "transfer.sql") | rules

    def knows(self, query: str) -> bool:
        return query in self._queries

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        return self.connection.stream(self._queries[query], page=_WIDE.get(query, PAGE), **values)

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
    """A snapshot of a database of this program's schema; raises `StoreUnavailable` where it cannot be read.

    One that a copy into it has not filled yet is read where that is asked for.
    """
    with BlockingConnection(url) as connection, connection.transaction(read_only=True):
        _refuse_other_schema(connection)
        if not unfinished:
            refuse_unfinished(connection)
        yield PostgresSnapshot(url, connection)


@contextmanager
def prepared(url: str) -> Iterator[BlockingConnection]:
    """A connection for writing to a database whose schema was brought up to date."""
    with BlockingConnection(url) as connection:
        connection.run(prepare(connection.connection, read_address(url)))
        yield connection


def refuse_unfinished(connection: BlockingConnection) -> None:
    """Raises `StoreUnavailable` while a copy into the database is under way."""
    [[source]] = connection.fetch("SELECT copied_from()")
    if source is not None:
        raise StoreUnavailable(half_copied(connection.name, source))


def _refuse_other_schema(connection: BlockingConnection) -> None:
    found, known = connection.run(applied_migrations(connection.connection)), len(migrations_in(PACKAGE))
    if found != known:
        hint = "run `langlauf migrate`" if found < known else "use the newer program"
        raise StoreUnavailable(f"{connection.name} has schema {found}, this program needs {known}: {hint}")
