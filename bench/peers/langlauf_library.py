"""Langlauf as a library: `app.submit` inside `app.lifespan()`, on the store that LANGLAUF_STORE names.

The worker is in the same process, or with BENCH_WORKER=apart a `langlauf worker` beside it.
"""

import os
import sqlite3
import time

PADDING = "x" * 250
APART = os.environ.get("BENCH_WORKER") == "apart"
STORE = os.environ["LANGLAUF_STORE"]
_COMPLETED = "select count(*) from {} where status = 'completed'"
app = connection = None


async def open_client():
    """Open the application; a worker apart is started with a worker of its own again."""
    global app, _lifespan
    os.environ["LANGLAUF_WORKERS"] = "0" if APART else "1"
    import langlauf_app

    app = langlauf_app.app
    _lifespan = app.lifespan()
    await _lifespan.__aenter__()
    os.environ["LANGLAUF_WORKERS"] = "1"


def reset():
    """The store is new."""


def worker_command():
    if APART:
        return ["langlauf", "worker", "langlauf_app:app"]
    return ["python", "-c", "import signal; signal.pause()"]


async def enqueue_one():
    await app.submit("noop", enqueued_at=time.time(), padding=PADDING)


async def stored():
    global connection
    if STORE.startswith("postgresql:"):
        import asyncpg

        connection = connection or await asyncpg.connect(STORE)
        return await connection.fetchval(_COMPLETED.format("langlauf.jobs"))
    connection = connection or sqlite3.connect(STORE, timeout=30)
    return connection.execute(_COMPLETED.format("jobs")).fetchone()[0]
