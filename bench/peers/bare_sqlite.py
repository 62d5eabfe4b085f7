"""Bare prototype on SQLite (WAL, synchronous FULL), an upper bound and no product; the same life as in bare_postgres.

A thread commits in groups. Client and worker are two processes; the worker looks every 2 ms whether the file has
changed. Run as a program it is the worker.
"""

import asyncio
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from group_commit import MOST, GroupCommit
from mark import mark

PATH = Path(os.environ["BENCH_DATA"]) / "bare.db"
PADDING = "x" * 250
RESULT = '{"ok":true,"data":"' + "y" * 200 + '"}'
SCHEMA = """
create table jobs (
    id integer primary key, queue text not null, state text not null, priority int not null default 0,
    run_at real not null, attempt int not null default 0, payload text not null, result text, created real,
    updated real);
create index jobs_ready on jobs (queue, priority, run_at, id) where state = 'ready';
create table events (
    job_id int not null, seq int not null, kind text not null, at real not null, data text,
    primary key (job_id, seq)) without rowid;
"""
READY = "select 1 from jobs where state = 'ready' and queue = 'q' limit 1"
CLAIM = """
update jobs set state = 'running', attempt = attempt + 1, updated = ?
where id in (
    select id from jobs where state = 'ready' and queue = 'q' and run_at <= ? order by priority, run_at, id limit ?)
returning id, payload
"""
connection = submissions = None


def connect():
    made = sqlite3.connect(PATH, isolation_level=None, timeout=30, check_same_thread=False)
    made.execute("pragma journal_mode = wal")
    made.execute("pragma synchronous = full")
    return made


def insert(payloads):
    now = time.time()
    connection.execute("begin immediate")
    first = connection.execute("select coalesce(max(id), 0) + 1 from jobs").fetchone()[0]
    connection.executemany(
        "insert into jobs (id, queue, state, run_at, payload, created) values (?, 'q', 'ready', ?, ?, ?)",
        [(first + place, now, payload, now) for place, payload in enumerate(payloads)],
    )
    ids = range(first, first + len(payloads))
    connection.executemany("insert into events values (?, 1, 'queued', ?, null)", [(job_id, now) for job_id in ids])
    connection.execute("commit")
    return ids


async def open_client():
    global connection, submissions
    if PATH.exists():
        connection = connect()
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    submissions = GroupCommit(lambda payloads: loop.run_in_executor(thread, insert, payloads))


def reset():
    global connection
    for suffix in ("", "-wal", "-shm"):
        PATH.with_name(PATH.name + suffix).unlink(missing_ok=True)
    connection = connect()
    connection.executescript(SCHEMA)


def worker_command():
    return ["python", "bare_sqlite.py"]


async def enqueue_one():
    return await submissions.add(f"{time.time()!r},{PADDING}")


def stored():
    return connection.execute("select count(*) from jobs where state = 'done'").fetchone()[0]


def claim(mine):
    if not mine.execute(READY).fetchone():
        return []
    now = time.time()
    mine.execute("begin immediate")
    taken = mine.execute(CLAIM, (now, now, MOST)).fetchall()
    mine.executemany("insert into events values (?, 2, 'started', ?, null)", [(row[0], now) for row in taken])
    mine.execute("commit")
    return taken


def end(mine, items):
    now = time.time()
    mine.execute("begin immediate")
    mine.executemany(
        "update jobs set state = 'done', result = ?, updated = ? where id = ? and state = 'running'",
        [(result, now, job_id) for job_id, result in items],
    )
    mine.executemany("insert into events values (?, 3, 'done', ?, null)", [(job_id, now) for job_id, _ in items])
    mine.execute("commit")
    return items


async def serve():
    loop, thread, mine, running = asyncio.get_running_loop(), ThreadPoolExecutor(1), connect(), set()
    done = GroupCommit(lambda items: loop.run_in_executor(thread, end, mine, items))

    async def run(job_id, payload):
        mark(float(payload.partition(",")[0]))
        await done.add((job_id, RESULT))

    def version():
        return mine.execute("pragma data_version").fetchone()[0], mine.execute(READY).fetchone()

    while True:
        for row in (rows := await loop.run_in_executor(thread, claim, mine)):
            task = asyncio.create_task(run(*row))
            running.add(task)
            task.add_done_callback(running.discard)
        if not rows:
            seen = await loop.run_in_executor(thread, version)
            while (now := await loop.run_in_executor(thread, version)) == seen and not now[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.002)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
