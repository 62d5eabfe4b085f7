"""Peer Procrastinate on PostgreSQL, 16 jobs at once."""

import os
import time

import psycopg
from mark import mark
from procrastinate import App, PsycopgConnector

URL = os.environ["POSTGRES_URL"]
#: Jobs that have ended are there before the first: on an empty table plans are far from those of a table in use.
PRIMED = 20_000
app = App(connector=PsycopgConnector(conninfo=URL, min_size=4, max_size=20))


@app.task(queue="bench", name="noop")
async def noop(enqueued_at):
    return mark(enqueued_at)


async def open_client():
    await app.open_async()


async def reset():
    with psycopg.connect(URL, autocommit=True) as connection:
        if connection.execute("select to_regclass('procrastinate_jobs')").fetchone()[0] is None:
            await app.schema_manager.apply_schema_async()
        connection.execute("truncate procrastinate_jobs, procrastinate_events, procrastinate_workers cascade")
        connection.execute(
            "insert into procrastinate_jobs (queue_name, task_name, lock, args, status) "
            "select 'bench', 'noop', null, '{}', 'succeeded' from generate_series(1, %s)",
            (PRIMED,),
        )
        connection.execute("vacuum analyze procrastinate_jobs")


def worker_command():
    return ["procrastinate", "--app=procrastinate_postgres.app", "worker", "-q", "bench", "-c", "16"]


async def enqueue_one():
    await noop.defer_async(enqueued_at=time.time())


def stored():
    with psycopg.connect(URL) as connection:
        done = connection.execute("select count(*) from procrastinate_jobs where status = 'succeeded'")
        return done.fetchone()[0] - PRIMED
