"""Peer Huey on SQLite as its documents show it: WAL, and synchronous at SQLite's own default, FULL; one thread."""

import os
import time
from pathlib import Path

from huey import SqliteHuey
from mark import mark

PATH = Path(os.environ["BENCH_DATA"]) / "huey.db"
huey = SqliteHuey("bench", filename=str(PATH))


@huey.task()
def noop(enqueued_at):
    return mark(enqueued_at)


def open_client():
    """Nothing to open."""


def reset():
    for suffix in ("", "-wal", "-shm"):
        PATH.with_name(PATH.name + suffix).unlink(missing_ok=True)
    huey.storage.initialize_schema()


def worker_command():
    return ["huey_consumer", "huey_sqlite.huey", "-w", "1", "-k", "thread", "-q"]


def enqueue_one():
    noop(time.time())


def stored():
    return huey.storage.result_store_size()
