"""Peer pgqueuer on PostgreSQL, batches of 100. Run as a program it is the worker."""

import os
import time

import asyncpg
from mark import mark
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

URL = os.environ["POSTGRES_URL"]
BATCH = 100
#: Jobs that have ended are there before the first: on an empty table plans are far from those of a table in use.
PRIMED = 20_000
pool = queries = None


async def open_client():
    global pool, queries
    pool = await asyncpg.create_pool(URL, min_size=10, max_size=10)
    queries = Queries(AsyncpgPoolDriver(pool))


async def reset():
    if await pool.fetchval("select to_regclass('pgqueuer')") is None:
        await queries.install()
    await pool.execute("truncate pgqueuer, pgqueuer_log")
    await pool.execute(
        "insert into pgqueuer_log (job_id, status, priority, entrypoint) "
        "select number, 'successful', 0, 'noop' from generate_series(1, $1::int) as number",
        PRIMED,
    )
    await pool.execute("vacuum analyze pgqueuer")
    await pool.execute("vacuum analyze pgqueuer_log")


def worker_command():
    return ["python", "pgqueuer_postgres.py"]


async def enqueue_one():
    await queries.enqueue("noop", repr(time.time()).encode())


async def stored():
    return await pool.fetchval("select count(*) from pgqueuer_log where status = 'successful'") - PRIMED


async def serve():
    mine = await asyncpg.create_pool(URL, min_size=2, max_size=10)
    worker = PgQueuer(AsyncpgPoolDriver(mine))

    @worker.entrypoint("noop")
    async def noop(job):
        mark(float(job.payload))

    await worker.run(batch_size=BATCH)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
