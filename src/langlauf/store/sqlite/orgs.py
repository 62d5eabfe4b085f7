"""An org as a whole, in SQLite. What is removed is overwritten, so that nothing of it can be read from the file."""

from functools import partial
from typing import cast

import msgspec

from langlauf.store.admin import KEYS, KNOWN_AS
from langlauf.store.sqlite.desk import Desk
from langlauf.store.sqlite.transaction import Transaction

#: How a table names an org: by its name, or by the number that stands for it.
_OWN = {"org_id": "org_id = :org_id", "org": "org = (SELECT org FROM orgs WHERE org_id = :org_id)"}
#: What of a table goes: no lane in which a job waits, and no number of an org under which something still is.
_GOES = {
    "lane_rows": "waiting = 0",
    "orgs": "NOT EXISTS (SELECT 1 FROM job_rows WHERE job_rows.org = orgs.org) "
    "AND NOT EXISTS (SELECT 1 FROM lane_rows WHERE lane_rows.org = orgs.org)",
}


def forget_keys(tx: Transaction, org_id: str) -> int:
    """Revokes them one by one: each change of a key has a number of its own."""
    while tx.run("org_revoke_key", org_id=org_id, now=tx.now):
        pass
    tx.run("org_forget_keys", org_id=org_id)
    return len(tx.rows("read_keys_of_org", org_id=org_id))


def remove_jobs(tx: Transaction, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
    """Those that have ended, or those that a worker has, which then run no more."""
    _overwrite(tx)
    which = {"org_id": org_id, "with_held": with_held, "limit": limit}
    if not forced:
        return tx.run("org_remove_ended", **which)
    removed = tx.rows("org_remove_leased", **which)
    for (analysis,) in removed:
        tx.running(analysis, -1)
    return len(removed)


def remove_rows(tx: Transaction, org_id: str, known_as: str, limit: int) -> int:
    """What other tables have, by the key of each."""
    tables = {KNOWN_AS.get(name, name): (name, own, key) for name, own, key in tx.rows("org_tables")}
    if known_as == KEYS or known_as not in tables:
        return 0
    _overwrite(tx)
    table, own, key = tables[known_as]
    sql = tx.query("org_remove_rows").format(
        table=_quoted(table),
        key=", ".join(map(_quoted, msgspec.json.decode(key, type=list[str]))),
        own=_OWN[own],
        goes=_GOES.get(table, "true"),
    )
    tx.connection.execute(sql, {"org_id": org_id, "limit": limit})
    return tx.connection.changes()


class SqliteOrgs(Desk):
    """Orgs, over the connections of a store. `write` lets everybody else go first."""

    async def rows(self, org_id: str) -> dict[str, int]:
        tables: list[tuple[str, str, str]] = sorted(
            (KNOWN_AS.get(str(name), str(name)), str(name), str(own)) for name, own, _ in await self._rows("org_tables")
        )
        return {known: await self._count(name, own, org_id) for known, name, own in tables}

    async def _count(self, table: str, own: str, org_id: str) -> int:
        sql = self._queries["org_count"].format(table=_quoted(table), own=_OWN[own])
        [(count,)] = await self._read(lambda connection: connection.execute(sql, {"org_id": org_id}).fetchall())
        return cast("int", count)

    async def held(self, org_id: str) -> int:
        [(count,)] = await self._rows("org_held", org_id=org_id)
        return cast("int", count)

    async def unended(self, org_id: str, limit: int) -> list[str]:
        return [job_id for (job_id,) in await self._rows("org_unended", org_id=org_id, limit=limit)]

    async def forget_keys(self, org_id: str) -> int:
        return await self._change(partial(forget_keys, org_id=org_id), org_id)

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        which = partial(remove_jobs, org_id=org_id, limit=limit, with_held=with_held, forced=forced)
        return await self._change(which, org_id)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        return await self._change(partial(remove_rows, org_id=org_id, known_as=table, limit=limit), org_id)


def _overwrite(tx: Transaction) -> None:
    tx.connection.pragma("secure_delete", True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
