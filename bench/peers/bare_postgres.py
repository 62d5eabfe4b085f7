"""Bare prototype on PostgreSQL, an upper bound and no product: it has no leases, retries, heartbeats, tenants, limits.

Group-commit enqueue, batch claim, batch end, one NOTIFY per batch. Per job a row, three events and a result. Run as a
program it is the worker.
"""

import asyncio
import os
import time

import asyncpg
from group_commit import MOST, GroupCommit
from mark import mark

URL = os.environ["POSTGRES_URL"]
#: Statistics of an almost empty table make the first plans bad; the generic one is right from the start.
GENERIC = {"plan_cache_mode": "force_generic_plan"}
PADDING = "x" * 250
RESULT = '{"ok":true,"data":"' + "y" * 200 + '"}'
PRIMED = 20_000
MOST_RUNNING = 1_000
SCHEMA = """
create table if not exists bare_jobs (
    id bigint generated always as identity primary key, queue text not null, state text not null,
    priority int not null default 0, run_at timestamptz not null default now(), attempt int not null default 0,
    payload text not null, created timestamptz default now(), updated timestamptz);
create index if not exists bare_jobs_ready on bare_jobs (queue, priority, run_at, id) where state = 'ready';
create table if not exists bare_events (
    id bigint generated always as identity primary key, job_id bigint not null, kind text not null,
    at timestamptz default now(), data text);
create index if not exists bare_events_job on bare_events (job_id);
create table if not exists bare_results (job_id bigint primary key, data text not null);
alter table bare_jobs set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    fillfactor = 70);
truncate bare_jobs, bare_events, bare_results restart identity;
"""
ENQUEUE = """
with new as (insert into bare_jobs (queue, state, payload) select 'q', 'ready', unnest($1::text[]) returning id),
logged as (insert into bare_events (job_id, kind) select id, 'queued' from new),
woken as (select pg_notify('bare_jobs', ''))
select id from new, woken
"""
CLAIM = """
with taken as (
    update bare_jobs set state = 'running', attempt = attempt + 1, updated = now()
    where id = any (array(
        select id from bare_jobs where state = 'ready' and queue = 'q' and run_at <= now()
        order by priority, run_at, id for update skip locked limit $1))
    returning id, payload),
logged as (insert into bare_events (job_id, kind) select id, 'started' from taken)
select id, payload from taken
"""
END = """
with ended as (select * from unnest($1::bigint[], $2::text[]) as one (id, data)),
done as (
    update bare_jobs set state = 'done', updated = now() from ended
    where bare_jobs.id = ended.id and state = 'running' returning bare_jobs.id),
logged as (insert into bare_events (job_id, kind) select id, 'done' from done)
insert into bare_results (job_id, data) select id, data from ended join done using (id)
"""
connection = submissions = None


async def open_client():
    global connection, submissions
    connection = await asyncpg.connect(URL, server_settings=GENERIC)
    submissions = GroupCommit(lambda payloads: connection.fetch(ENQUEUE, payloads))


async def reset():
    await connection.execute(SCHEMA)
    await connection.execute(
        f"insert into bare_jobs (queue, state, payload) select 'q', 'done', 'x' from generate_series(1, {PRIMED})"
    )
    await connection.execute("insert into bare_results select id, 'x' from bare_jobs")
    await connection.execute("vacuum analyze bare_jobs")
    await connection.execute("vacuum analyze bare_results")


def worker_command():
    return ["python", "bare_postgres.py"]


async def enqueue_one():
    return await submissions.add(f"{time.time()!r},{PADDING}")


async def stored():
    return await connection.fetchval("select count(*) from bare_results") - PRIMED


async def run_job(payload):
    mark(float(payload.partition(",")[0]))
    return RESULT


async def serve():
    wake, slots, running = asyncio.Event(), asyncio.Semaphore(MOST_RUNNING), set()
    listener, claims, ends = [await asyncpg.connect(URL, server_settings=GENERIC) for _ in range(3)]
    await listener.add_listener("bare_jobs", lambda *_: wake.set())

    async def flush(items):
        await ends.execute(END, [job_id for job_id, _ in items], [result for _, result in items])
        return items

    done = GroupCommit(flush)

    async def run(job_id, payload):
        try:
            await done.add((job_id, await run_job(payload)))
        finally:
            slots.release()

    while True:
        wake.clear()
        rows = await claims.fetch(CLAIM, max(1, min(MOST, MOST_RUNNING - len(running))))
        for job_id, payload in rows:
            await slots.acquire()
            task = asyncio.create_task(run(job_id, payload))
            running.add(task)
            task.add_done_callback(running.discard)
        if rows:
            await asyncio.sleep(0)
            continue
        try:
            await asyncio.wait_for(wake.wait(), 1.0)
        except TimeoutError:
            pass


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
