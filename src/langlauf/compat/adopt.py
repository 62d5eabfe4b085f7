"""Adopts the table `reading_jobs` of an earlier system: what it has, what it lacks, all in one transaction."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import asyncpg

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreError
from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.postgres.migrate import MIGRATION_LOCK
from langlauf.store.sql import load_queries

# -- the table ---------------------------------------------------------------------------------------------------------
# Everything is additive. What is there already, in part or whole, is left alone where it is what is wanted, and refused
# by name where it is something else: no column, constraint or index of others is ever changed in kind.

TABLE = "reading_jobs"
SQL = load_queries("langlauf.compat", "adopt.sql")
WORDS = ("pending", "processing", "generating", "completed", "done", "failed", "timeout", "cancelled")
_LONGEST_WORD = max(map(len, WORDS))


class EarlierColumn(NamedTuple):
    """A column to add, with the name that the catalog has for its type."""

    name: str
    type: str
    comment: str
    default: int | None = None

    @property
    def definition(self) -> str:
        """How it is added."""
        filled = "" if self.default is None else f" NOT NULL DEFAULT {self.default}"
        return f"{self.name} {self.type}{filled}"


COLUMNS = (
    EarlierColumn("started_at", "timestamp with time zone", "When generating began; timeouts are found by it."),
    EarlierColumn("retry_count", "integer", "How many retries there were.", 0),
    EarlierColumn("max_retries", "integer", "How many retries there may be.", 3),
    EarlierColumn("last_retry_at", "timestamp with time zone", "When the last retry was."),
    EarlierColumn("retry_reason", "text", "Why it was."),
    EarlierColumn("error_code", "character varying(50)", "What kind of error it was, in capitals, such as TIMEOUT."),
    EarlierColumn("error_meta", "jsonb", "Details of the error."),
)
#: The indexes: their columns and which rows they hold.
INDEXES = {
    "idx_reading_jobs_timeout_detection": (
        ("status", "started_at"),
        "status = 'generating' AND started_at IS NOT NULL",
    ),
    "idx_reading_jobs_retry_eligible": (
        ("status", "retry_count", "max_retries"),
        "status = ANY (ARRAY['failed', 'timeout'])",
    ),
    "idx_reading_jobs_error_code": (("error_code",), "error_code IS NOT NULL"),
}
_KINDS = {"v": "a view", "m": "a materialized view", "p": "a partitioned table", "f": "a foreign table"}
_ABOUT_FUNCTION = (
    "Langlauf: marks rows that have been generating for more than 120 seconds as timeout, or as failed where no "
    "retry is left; returns how many and which. Calling it again does nothing."
)
_RESULT = "TABLE(updated_count integer, updated_jobs uuid[])"
_CONFIG = ["search_path=pg_catalog, pg_temp", "TimeZone=UTC"]
#: The message, where the table has a column that holds it.
_LONGEST_ERROR = 80
_ERROR = """,
            error = 'Generating took longer than ' || threshold_seconds || ' seconds'
                || CASE WHEN job.retry_count < job.max_retries THEN '' ELSE ', and no retry is left' END"""
_CALLERS = ("service_role", "authenticated")
_QUOTED = re.compile(r"('(?:[^']|'')*')")
_CAST = re.compile(r"::[a-z ]+(?:\(\d+\))?(?:\[\])?")
_LISTS = re.compile(r"status=ANYARRAY\[('\w*'(?:,'\w*')*)\]|(status='\w*'(?:ORstatus='\w*')*)")


class CannotAdopt(StoreError):
    """The table is not one that can be extended; nothing was changed."""


class Step(NamedTuple):
    """One change: in a few words, and as SQL."""

    what: str
    sql: str


class EarlierTable:
    """What the catalog says about the table."""

    def __init__(self, relation: Mapping[str, Any]) -> None:
        self.oid = relation["oid"]
        self.shown: str = relation["table"]
        self.schema: str = relation["schema"]
        self._relation = relation
        self._problems: list[str] = []

    @classmethod
    async def find(cls, connection: Any, schema: str) -> "EarlierTable":
        """Find it, and refuse what is no table."""
        relation = await connection.fetchrow(SQL["relation"], schema, TABLE)
        if relation is None:
            raise CannotAdopt(f"there is no table {schema}.{TABLE}: nothing to adopt")
        kind = relation["relkind"].decode() if isinstance(relation["relkind"], bytes) else relation["relkind"]
        if relation["ours"]:
            raise CannotAdopt(f"{relation['table']} is Langlauf's own view of its jobs: there is nothing to adopt")
        if kind != "r":
            raise CannotAdopt(f"{relation['table']} is {_KINDS.get(kind, 'something else')}, not a table")
        return cls(relation)

    async def missing(self, connection: Any) -> list[Step]:
        """Return the missing steps in order; raise with every obstacle."""
        columns = {row["name"]: row for row in await connection.fetch(SQL["columns"], self.oid)}
        self._look_at_owner()
        self._look_at_base(columns)
        steps = list(self._columns(columns))
        checks = await connection.fetch(SQL["checks"], self.oid)
        steps += self._counts(checks)
        # A table without the column would fail at the question itself: it is refused below.
        strange = await self._strange(connection) if "status" in columns else []
        steps += self._status(checks, strange)
        steps += self._indexes(await connection.fetch(SQL["indexes"], self.oid, list(INDEXES)))
        found = await connection.fetchrow(SQL["function"], self.oid, _CONFIG)
        roles = [row[0] for row in await connection.fetch(SQL["roles"])]
        steps += self._function(found, roles, columns)
        if self._problems:
            raise CannotAdopt(f"{self.shown} was not changed: " + "; ".join(self._problems))
        return steps

    async def _strange(self, connection: Any) -> list[str]:
        rows = await connection.fetch(SQL["strange_words"].replace("{table}", self.shown), list(WORDS))
        return [row["word"] for row in rows]

    def _look_at_owner(self) -> None:
        if self._relation["blind"]:
            self._problems.append(
                f"it forces row-level security on its owner {self._relation['owner']}, with whose rights the function "
                f"runs: it would find nothing (ALTER TABLE {self.shown} NO FORCE ROW LEVEL SECURITY)"
            )

    def _look_at_base(self, columns: Mapping[str, Any]) -> None:
        """What the table must have had before."""
        for name, fits, wanted in (
            ("id", lambda kind: kind == "uuid", "uuid"),
            ("status", partial(_holds, length=_LONGEST_WORD), f"a text that holds {_LONGEST_WORD} characters"),
        ):
            column = columns.get(name)
            if column is None:
                self._problems.append(f"it has no column {name}")
            elif not fits(column["type"]) or column["made"]:
                self._problems.append(f"the column {name} is {column['type']}, not {wanted}")

    def _columns(self, present: Mapping[str, Any]) -> Iterator[Step]:
        for column in COLUMNS:
            found = present.get(column.name)
            if found is None:
                yield self._alter(f"column {column.name}", f"ADD COLUMN {column.definition}")
                yield self._described(column)
            elif found["type"] != column.type or found["made"]:
                self._problems.append(
                    f"the column {column.name} is {found['type']}, not {column.type} "
                    f"(ALTER TABLE {self.shown} ALTER COLUMN {column.name} TYPE {column.type})"
                )
            else:
                if column.default is not None:
                    yield from self._filled(column, found)
                if not found["described"]:
                    yield self._described(column)

    def _described(self, column: EarlierColumn) -> Step:
        comment = f"COMMENT ON COLUMN {self.shown}.{column.name} IS '{column.comment}'"
        return Step(f"comment on {column.name}", comment)

    def _filled(self, column: EarlierColumn, found: Mapping[str, Any]) -> Iterator[Step]:
        """Defaults for a column that an earlier attempt added without them. Rows are filled without firing triggers."""
        change = f"ALTER COLUMN {column.name}"
        if not found["has_default"]:
            yield self._alter(f"default of {column.name}", f"{change} SET DEFAULT {column.default}")
        if not found["filled"]:
            fill = f"{change} TYPE integer USING coalesce({column.name}, {column.default})"
            yield self._alter(f"{column.name} is never null", f"{fill}, {change} SET NOT NULL")

    def _counts(self, checks: Sequence[Any]) -> Iterator[Step]:
        known = {_plain(check["expression"]) for check in checks}
        names = {check["name"]: check["expression"] for check in checks}
        for column in ("retry_count", "max_retries"):
            name = f"{TABLE}_{column}_check"
            if f"{column}>=0" in known:
                continue
            if name in names:
                self._problems.append(f"the constraint {name} says {names[name]}, not {column} >= 0")
            yield self._alter(f"constraint {name}", f"ADD CONSTRAINT {name} CHECK ({column} >= 0)")

    def _status(self, checks: Sequence[Any], strange: Sequence[str]) -> Iterator[Step]:
        """Yield the step that extends a constraint with too few states, under its name."""
        if strange:
            self._problems.append(f"rows have states that are not among the eight: {', '.join(map(repr, strange))}")
        narrow = []
        exact = False
        for check in (one for one in checks if one["of_status"]):
            allowed = _allowed(check["expression"])
            if allowed is None or not allowed <= set(WORDS):
                self._problems.append(
                    f"the constraint {check['name']} says {check['expression']}, which is no list of some of the eight "
                    "states: it would be narrowed, or stand in the way"
                )
            elif allowed == set(WORDS):
                exact = True
            else:
                narrow.append(check["name"])
        if exact and not narrow:
            return
        name = narrow[0] if narrow else f"{TABLE}_status_check"
        changes = [f"DROP CONSTRAINT {_quoted(one)}" for one in narrow]
        if not exact:
            words = ", ".join(f"'{word}'" for word in WORDS)
            changes.append(f"ADD CONSTRAINT {_quoted(name)} CHECK (status IN ({words}))")
        yield self._alter(f"constraint {name}", ", ".join(changes))

    def _indexes(self, found: Iterable[Any]) -> Iterator[Step]:
        present = {index["name"]: index for index in found}
        for name, (columns, predicate) in INDEXES.items():
            index = present.get(name)
            if index is None:
                sql = f"CREATE INDEX {name} ON {self.shown} ({', '.join(columns)}) WHERE {predicate}"
                yield Step(f"index {name}", sql)
            elif not (
                index["usable"]
                and tuple(index["columns"]) == columns
                and _plain(index["predicate"]) == _plain(predicate)
            ):
                self._problems.append(f"there is another {name} (DROP INDEX {self.schema}.{name})")

    def _function(self, found: Any, roles: Sequence[str], columns: Mapping[str, Any]) -> Iterator[Step]:
        name = f"{self.schema}.check_reading_timeouts()"
        definition = self._definition(columns)
        if found is not None and found["result"] != _RESULT:
            yield Step("the function of the same name goes", f"DROP FUNCTION {name}")
            found = None
        if found is None or not found["kept"] or found["body"] != definition.split("$langlauf$")[1]:
            yield Step("function check_reading_timeouts()", definition)
        if found is None or not found["described"]:
            yield Step("comment on check_reading_timeouts()", f"COMMENT ON FUNCTION {name} IS '{_ABOUT_FUNCTION}'")
        had = None if found is None else set(found["grantees"])
        closed = [role for role in ("public", "anon") if (had is None or role in had) and role in ("public", *roles)]
        if closed:
            yield Step("no other role may call it", f"REVOKE ALL ON FUNCTION {name} FROM {', '.join(closed)}")
        for role in _CALLERS:
            if role in roles and (had is None or role not in had):
                yield Step(f"{role} may call it", f"GRANT EXECUTE ON FUNCTION {name} TO {role}")
        yield from self._owner_of(name, found)

    def _owner_of(self, name: str, found: Any) -> Iterator[Step]:
        """Yield the steps that give the function the rights of the table's owner, and no greater ones."""
        owner = None if found is None else found["owner"]
        if self._relation["may_own"] and owner != self._relation["relowner"]:
            yield Step(
                "it runs as the table's owner", f"ALTER FUNCTION {name} OWNER TO {_quoted(self._relation['owner'])}"
            )

    async def views_without(self, connection: Any) -> list[str]:
        """Views of users that were made before the columns, and do not show them."""
        names = [column.name for column in COLUMNS]
        return [row["view"] for row in await connection.fetch(SQL["views_without"], self.oid, names)]

    def _definition(self, columns: Mapping[str, Any]) -> str:
        updated, error = columns.get("updated_at"), columns.get("error")
        touch = updated is not None and updated["type"].startswith("timestamp") and not updated["made"]
        fill = error is not None and _holds(error["type"], _LONGEST_ERROR) and not error["made"]
        return (
            SQL["check_reading_timeouts"]
            .replace("{table}", self.shown)
            .replace("{schema}", self.schema)
            .replace("{error}", _ERROR if fill else "")
            .replace("{touch}", ",\n            updated_at = now()" if touch else "")
        )

    def _alter(self, what: str, change: str) -> Step:
        return Step(what, f"ALTER TABLE {self.shown} {change}")


def _holds(kind: str, length: int) -> bool:
    """Whether a column of this type takes a text of so many characters."""
    limit = re.fullmatch(r"character varying\((\d+)\)", kind)
    return kind in ("text", "character varying") or (limit is not None and int(limit[1]) >= length)


def _plain(expression: str) -> str:
    """Return an expression of the catalog without the casts, brackets and spaces that depend on the columns' types."""
    parts = _QUOTED.split(expression)
    parts[::2] = [re.sub(r"[()\s]", "", _CAST.sub("", part)) for part in parts[::2]]
    return "".join(parts)


def _allowed(expression: str) -> set[str] | None:
    """Return the words that a constraint allows, where it is a list of words."""
    plain = _plain(expression)
    return {word[1:-1] for word in _QUOTED.findall(plain)} if _LISTS.fullmatch(plain) else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- adoption ----------------------------------------------------------------------------------------------------------

#: Who waits for the table holds up everybody who comes later: so the wait is short, and tried again after a pause.
LOCK_SECONDS = 2.0
PAUSE_SECONDS = 0.5
#: How long it is tried in all.
PATIENCE_SECONDS = 30.0
#: What the change itself may take: a table of an earlier system is small, and its indexes are made while it is locked.
WORK_SECONDS = 600.0


class Adoption(NamedTuple):
    """What was done, or in a dry run what would be."""

    table: str
    dry_run: bool
    steps: list[Step]
    #: views of users that were made before the columns, and do not show them
    views: list[str]

    def script(self) -> str:
        """Return the same as SQL for `psql`; nothing where there is nothing to do."""
        if not self.steps:
            return ""
        return ";\n".join(["BEGIN", *_first(self.table), *(step.sql for step in self.steps), "COMMIT", ""])


async def adopt_reading_jobs(url: str, *, schema: str = "public", dry_run: bool = False) -> Adoption:
    """Give the table what it lacks; refuse with everything that stands in the way, and change nothing then."""
    connection = DatabaseConnection(url, "adopt")
    try:
        return await connection.use(lambda raw: _adopt(raw, schema, dry_run=dry_run), timeout_seconds=WORK_SECONDS)
    finally:
        await connection.close()


async def _adopt(connection: Any, schema: str, *, dry_run: bool) -> Adoption:
    await connection.execute("SET search_path = pg_catalog, pg_temp; SET statement_timeout = 0")
    table = await EarlierTable.find(connection, schema)
    steps = await table.missing(connection)
    deadline = monotonic() + PATIENCE_SECONDS
    while steps and not dry_run:
        try:
            steps = await _change(connection, schema)
            break
        except asyncpg.LockNotAvailableError:
            if monotonic() + PAUSE_SECONDS >= deadline:
                raise CannotAdopt(
                    f"{table.shown} was not changed: others have held it for {PATIENCE_SECONDS:g} s"
                ) from None
            await asyncio.sleep(PAUSE_SECONDS)
    return Adoption(table.shown, dry_run, steps, await table.views_without(connection))


async def _change(connection: Any, schema: str) -> list[Step]:
    """Inspect the table again under the lock, since it may have changed, and apply what is missing."""
    async with connection.transaction(isolation="read_committed"):
        table = await EarlierTable.find(connection, schema)
        for statement in _first(table.shown):
            await connection.execute(statement)
        steps = await table.missing(connection)
        for step in steps:
            await connection.execute(step.sql)
    return steps


def _first(table: str) -> list[str]:
    return [
        f"SET LOCAL lock_timeout = '{LOCK_SECONDS:g}s'",
        f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})",
        f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
    ]
