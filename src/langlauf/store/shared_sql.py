"""The statements of `admin.sql`, which both databases understand."""

import re
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

from langlauf.store.sql import COMMENT, fill_placeholders, put_in

Dialect = Literal["sqlite", "postgres"]
#: What the databases spell differently.
_WORDS: dict[Dialect, dict[str, str]] = {
    "sqlite": {
        "by": "INDEXED BY {0}",
        "each": "json_each(:{0}) AS given",
        "is_job": "{0}.job_id = :job_id",
        "of_given_org": "{0}.org = (SELECT org FROM orgs WHERE org_id = given.org_id)",
        "skip_locked": "",
    },
    "postgres": {
        "by": "",
        "each": "unnest(:{0}) AS given (value)",
        "is_job": "{0}.job = key_of(:job_id)",
        "of_given_org": "{0}.org_id = given.org_id",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
    },
}
#: Rows that come as JSON, with the names and types of their columns.
_ROWS = re.compile(r"\{rows:([^{}]+)\}")
#: A value in a statement.
NAMED = re.compile(r"(?<![:'\w]):([a-z][a-z0-9_]*)\b")
_HEADER = re.compile(r"^-- (query|change|part): (.*\n(?:--   .*\n)*)", re.MULTILINE)
_SIGNATURE = re.compile(r"(\w+)\((.*?)\) RETURNS (.*)\n")
_LOCK = re.compile(r"^-- locks: (.+)\n", re.MULTILINE)
_END = re.compile(r";$", re.MULTILINE)


class SharedStatement(NamedTuple):
    """A read, or the statements of a change in their order."""

    name: str
    #: the parameters, with the types that PostgreSQL gives them
    parameters: str
    #: the type of the answer
    returns: str
    steps: list[str]
    changes: bool
    #: what PostgreSQL locks: a word, perhaps with the parameter that says whose, or `rows of` a table
    lock: str | None

    @property
    def gives_rows(self) -> bool:
        """Whether it returns rows, rather than a value."""
        return self.returns.startswith(("SETOF ", "TABLE "))

    @property
    def timed(self) -> bool:
        """Whether it asks for the time."""
        return any(":now" in step for step in self.steps)

    @property
    def names(self) -> list[str]:
        """The names under which a driver of SQLite has the steps."""
        return [f"{self.name}.{place}" for place in range(1, len(self.steps) + 1)] if self.changes else [self.name]


@cache
def shared_statements(dialect: Dialect) -> dict[str, SharedStatement]:
    """Return the statements by name, in the words of one database."""
    text = fill_placeholders(resources.files("langlauf.store").joinpath("admin.sql").read_text("utf-8"))
    pieces = _HEADER.split(text)[1:]
    parts = dict(_WORDS[dialect])
    found: dict[str, SharedStatement] = {}
    for kind, header, written in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        body = _ROWS.sub(_json_rows if dialect == "sqlite" else r"json_to_recordset(:rows) AS given (\1)", written)
        sql = COMMENT.sub("", body).strip()
        if kind == "part":
            parts[header.strip()] = sql
            continue
        [(name, parameters, returns)] = _SIGNATURE.findall(header.replace("\n--  ", ""))
        steps = [step.strip() for step in _END.split(put_in(sql, parts))[:-1]]
        lock = _LOCK.search(body)
        found[name] = SharedStatement(name, parameters, returns, steps, kind == "change", lock and lock[1])
    return found


def _json_rows(columns: re.Match[str]) -> str:
    names = [column.split()[0] for column in columns[1].split(", ")]
    values = ", ".join(f"value ->> '{name}' AS {name}" for name in names)
    return f"(SELECT {values} FROM json_each(:rows)) AS given"  # noqa: S608 - names of ours


def shared_queries(dialect: Dialect) -> dict[str, str]:
    """Return all steps by their names."""
    statements = shared_statements(dialect).values()
    return {name: step for one in statements for name, step in zip(one.names, one.steps, strict=True)}
