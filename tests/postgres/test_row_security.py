"""Row-level security: what the catalog says, and that queries that forget the org see no other org."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from tests.postgres.isolation import ORGS, fill, let_in, make_careless, run
from tests.support.postgres import execute, fetch, fresh_database, template

_UNGUARDED = """
SELECT relname FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('r', 'p')
AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'org_id' AND NOT attisdropped)
AND NOT (relrowsecurity AND relforcerowsecurity AND ARRAY(
    SELECT format('%s %s %s %s %s', polname, polcmd, polroles::regrole[], pg_get_expr(polqual, polrelid),
        pg_get_expr(polwithcheck, polrelid)) FROM pg_policy WHERE polrelid = pg_class.oid ORDER BY polname) = $1)
"""
_POLICIES = [
    "all_orgs * {langlauf_engine} true true",
    "own_org r {langlauf_api} (org_id = current_setting('langlauf.org_id'::text, true)) ",
]
_TABLES = """
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'org_id'
WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r' ORDER BY 1
"""
#: These touch no table, and are inlined.
_HELPERS = {"moment", "time_text", "json_string", "feed_mark", "new_event_id"}


@pytest.fixture(scope="module")
def filled() -> Iterator[str]:
    """A database with jobs of two orgs."""
    with fresh_database(template=template("two_orgs", lambda url: asyncio.run(fill(url)))) as url:
        yield url


def test_every_table_of_orgs_is_guarded(filled: str) -> None:
    """Each has its two policies, forced on its owner as well; a table without them is found here."""
    assert fetch(filled, _UNGUARDED, _POLICIES) == []
    with fresh_database(template=template("two_orgs", lambda _: None)) as url:
        execute(url, "CREATE TABLE langlauf.later (org_id text)")
        assert [row["relname"] for row in fetch(url, _UNGUARDED, _POLICIES)] == ["later"]
        execute(url, "SET search_path = langlauf; SELECT guard_tables()")
        assert fetch(url, _UNGUARDED, _POLICIES) == []
        execute(url, "ALTER TABLE langlauf.job_rows NO FORCE ROW LEVEL SECURITY")
        assert [row["relname"] for row in fetch(url, _UNGUARDED, _POLICIES)] == ["job_rows"]


def test_every_function_runs_as_one_of_the_roles(filled: str) -> None:
    """It has a fixed search_path and explicit grants; the rest are helpers and tools of migrations."""
    rows = fetch(
        filled,
        """SELECT proname, prosecdef, provolatile = 'i' AS pure, proowner::regrole::text AS owner,
            'search_path=langlauf, pg_temp' = ANY (coalesce(proconfig, '{}')) AS fixed,
            EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0) AS open
        FROM pg_proc WHERE pronamespace = 'langlauf'::regnamespace""",
    )
    assert len(rows) > 30
    assert [row["proname"] for row in rows if row["open"]] == []
    for row in rows:
        if row["proname"] in _HELPERS or row["pure"]:
            assert not row["prosecdef"], row
        elif row["prosecdef"]:
            assert row["fixed"], row
            assert row["owner"] in ("langlauf_api", "langlauf_engine"), row
        else:
            assert row["fixed"], f"{row['proname']} is neither guarded nor a tool"
    owners = {row["proname"]: row["owner"] for row in rows}
    assert owners["submit"] == owners["sweep"] == owners["views_of"] == "langlauf_engine"
    assert {owner for name, owner in owners.items() if name.startswith("read_")} == {"langlauf_api"}


def test_no_role_has_more_rights(filled: str) -> None:
    """The api role reads and never writes, PUBLIC has no rights, and views are security invoker."""
    rights = fetch(
        filled,
        """SELECT relname, grantee, privilege_type FROM pg_class, aclexplode(relacl)
        WHERE relnamespace = 'langlauf'::regnamespace AND (grantee = 0 OR grantee = 'langlauf_api'::regrole)
        AND privilege_type <> 'SELECT'""",
    )
    assert rights == []
    hidden = "SELECT has_table_privilege('langlauf_api', 'langlauf.' || name, 'SELECT') FROM unnest($1::text[]) AS name"
    secrets = ["api_keys", "signing_secrets", "ended_sessions", "batches", "imports", "migrations"]
    assert not any(row[0] for row in fetch(filled, hidden, secrets))
    for role in ("langlauf_api", "langlauf_engine", "public"):
        assert not fetch(filled, "SELECT has_schema_privilege($1, 'langlauf', 'CREATE')", role)[0][0]
    views = fetch(
        filled, "SELECT reloptions FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'v'"
    )
    assert all("security_invoker=true" in row["reloptions"] for row in views)


def test_without_an_org_no_row_is_visible(filled: str) -> None:
    """As the api role: no org, no row; an org, only its rows, although the SQL names none; and no write."""
    tables = [row["relname"] for row in fetch(filled, _TABLES) if row["relname"] != "api_keys"]
    seen = dict.fromkeys(ORGS, 0)

    async def look() -> None:
        connection = await asyncpg.connect(filled)
        try:
            await connection.execute("SET ROLE langlauf_api")
            for table in tables:
                count = f"SELECT org_id, count(*) FROM langlauf.{table} GROUP BY 1"
                assert await connection.fetch(count) == []
                for org in ORGS:
                    async with connection.transaction():
                        await connection.execute("SELECT set_config('langlauf.org_id', $1, true)", org)
                        rows = await connection.fetch(count)
                        assert {row["org_id"] for row in rows} <= {org}
                        seen[org] += sum(row["count"] for row in rows)
                assert await connection.fetch(count) == []
                for statement in (f"DELETE FROM langlauf.{table}", f"UPDATE langlauf.{table} SET org_id = 'org-a'"):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(look())
    assert seen[ORGS[0]] == seen[ORGS[1]] > 0


@pytest.mark.parametrize("stays", [False, True])
def test_orgs_on_pooled_connections_are_isolated(stays: bool) -> None:
    """With any failure in between.

    An org that stayed set on a connection would be noticed. The command runs more of it.
    """
    with fresh_database(template=template("two_orgs", lambda url: asyncio.run(fill(url)))) as url:
        make_careless(url, stays=stays)
        found = asyncio.run(run(let_in(url, "langlauf_isolation"), requests=400, seed=7))
    assert len(found.kinds) == 6
    assert found.own_bytes > 0
    assert (found.other_bytes > 0) == stays
