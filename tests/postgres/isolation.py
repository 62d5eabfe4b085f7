"""`python -m tests.postgres.isolation`: two orgs on two pooled connections, with errors and aborts in between.

The queries forget the org, so that only row-level security separates the two. Requests fail, are rolled back or
abandoned, and connections are reused without a reset. Every byte that one org saw of the other is counted.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import asyncpg
import click

from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.migrate import roles_sql
from tests.support.outbox import told
from tests.support.postgres import address, execute, fetch, fresh_database, shared_server
from tests.support.stores import JobFactory, SetClock
from tests.support.submissions import accept

ORGS = ("org-a", "org-b")
_JOBS = 5
_CALLERS = 6
#: A careless read: it has the right owner, and no condition.
_CARELESS = """
CREATE FUNCTION langlauf.{name}(org text) RETURNS TABLE (whose text, what text) LANGUAGE plpgsql AS $$
BEGIN
    {set_org}
    RETURN QUERY
        SELECT org_id::text, payload FROM job_inputs UNION ALL SELECT org_id::text, payload_json FROM job_events;
    {then}
END $$;
ALTER FUNCTION langlauf.{name} OWNER TO langlauf_api;
ALTER FUNCTION langlauf.{name} SECURITY DEFINER SET search_path = langlauf, pg_temp;
"""
_SET = "PERFORM set_config('langlauf.org_id', org, {local});"


class Found(NamedTuple):
    """The outcome of a run."""

    requests: int
    own_bytes: int
    other_bytes: int
    kinds: Counter[str]


async def fill(url: str) -> None:
    """Create jobs of both orgs, whose names are in all their data."""
    clock = SetClock()
    store: Any = await PostgresStore.open(url, hints=Hints(), clock=clock)
    try:
        for org in ORGS:
            await told(JobFactory(store, clock, org))
        for number in range(_JOBS):
            for org in ORGS:
                await accept(store, clock, org=org, query=f"a secret of {org} {number}")
    finally:
        await store.close()


def make_careless(url: str, *, stays: bool = False) -> None:
    """Add reads without a condition; with `stays` the org is set for the session instead of the statement."""
    set_org = _SET.format(local="false" if stays else "true")
    for name, first, then in (
        ("read_all", set_org, ""),
        ("read_unset", "", ""),
        ("read_failing", set_org, "RAISE EXCEPTION 'on purpose';"),
        ("read_slow", set_org, "PERFORM pg_sleep(5);"),
    ):
        execute(url, _CARELESS.format(name=name, set_org=first, then=then))


def let_in(url: str, login: str) -> str:
    """Return the URL of a login that owns nothing and may call the functions."""
    # Another process of the run may create it at this moment.
    execute(
        url,
        f'''DO $$ BEGIN CREATE ROLE "{login}" LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$''',
    )
    execute(url, roles_sql(fetch(url, "SELECT current_user")[0][0], login))
    return address(url, url.rpartition("/")[2], user=login)


async def run(url: str, *, requests: int, seed: int) -> Found:
    """Query repeatedly, alternating between the orgs."""
    draw, kinds = random.Random(seed), Counter[str]()
    own = other = 0
    todo = iter(range(requests))

    async def nothing_reset(_: Any) -> None:
        """A pool that does not reset its connections."""

    async def caller() -> None:
        nonlocal own, other
        for number in todo:
            org, kind = ORGS[number % 2], draw.choice(list(_KINDS))
            kinds[kind] += 1
            async with pool.acquire() as connection:
                for row in await _KINDS[kind](connection, org):
                    size = len(row["what"])
                    if row["whose"] == org and f"secret of {ORGS[1 - number % 2]}" not in row["what"]:
                        own += size
                    else:
                        other += size

    async with asyncpg.create_pool(url, min_size=2, max_size=2, reset=nothing_reset) as pool:
        await asyncio.gather(*(caller() for _ in range(_CALLERS)))
    return Found(requests, own, other, kinds)


async def _read(connection: Any, org: str) -> list[Any]:
    return list(await connection.fetch("SELECT * FROM langlauf.read_all($1)", org))


async def _forget(connection: Any, org: str) -> list[Any]:
    return [*await connection.fetch("SELECT * FROM langlauf.read_unset($1)", org)] and [
        {"whose": "", "what": "forgotten"}
    ]


async def _fail(connection: Any, org: str) -> list[Any]:
    try:
        await connection.fetch("SELECT * FROM langlauf.read_failing($1)", org)
    except asyncpg.RaiseError:
        return await _forget(connection, org)
    raise AssertionError("it fails on purpose")


async def _abandon(connection: Any, org: str) -> list[Any]:
    try:
        await connection.fetch("SELECT * FROM langlauf.read_slow($1)", org, timeout=0.005)
    except TimeoutError:
        return await _forget(connection, org)
    raise AssertionError("it takes too long")


async def _roll_back(connection: Any, org: str) -> list[Any]:
    transaction = connection.transaction()
    await transaction.start()
    rows = await _read(connection, org)
    await transaction.rollback()
    return rows + await _forget(connection, org)


async def _both_in_one(connection: Any, org: str) -> list[Any]:
    """Another org, an error, and then the org itself, all in one transaction."""
    async with connection.transaction():
        await _read(connection, ORGS[1 - ORGS.index(org)])
        try:
            async with connection.transaction():
                await connection.fetch("SELECT * FROM langlauf.read_failing($1)", ORGS[1 - ORGS.index(org)])
        except asyncpg.RaiseError:
            return await _read(connection, org)
    raise AssertionError("it fails on purpose")


_KINDS: dict[str, Callable[[Any, str], Awaitable[list[Any]]]] = {
    "read": _read,
    "forget": _forget,
    "fail": _fail,
    "abandon": _abandon,
    "roll back": _roll_back,
    "both in one": _both_in_one,
}


@click.command()
@click.option("--requests", type=click.IntRange(1), default=20_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(requests: int, seed: int) -> None:
    """Look for a byte of another org; exit with 1 if there was one."""
    with fresh_database(server=shared_server()) as url:
        asyncio.run(fill(url))
        make_careless(url)
        found = asyncio.run(run(let_in(url, "langlauf_isolation"), requests=requests, seed=seed))
    print(f"{found.requests} requests: {found.own_bytes} bytes of their own org, {found.other_bytes} of the other")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(found.kinds.items())))
    raise SystemExit(1 if found.other_bytes else 0)


if __name__ == "__main__":
    main()
