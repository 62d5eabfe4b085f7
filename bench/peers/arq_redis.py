"""Peer arq on Redis, which its worker asks every 10 ms (by default every 500)."""

import os
import time

from arq import create_pool
from arq.connections import RedisSettings
from mark import mark

SETTINGS = RedisSettings.from_dsn(os.environ["REDIS_URL"])
pool = None


async def noop(_context, enqueued_at):
    return mark(enqueued_at)


class WorkerSettings:
    functions = (noop,)
    redis_settings = SETTINGS
    max_jobs = 100
    poll_delay = 0.01


async def open_client():
    global pool
    pool = await create_pool(SETTINGS)


async def reset():
    await pool.flushall()


def worker_command():
    return ["arq", "arq_redis.WorkerSettings"]


async def enqueue_one():
    await pool.enqueue_job("noop", time.time())


async def stored():
    return len(await pool.keys("arq:result:*"))
