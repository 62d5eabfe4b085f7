"""Peer Huey on Redis, eight threads."""

import os
import time

import redis
from huey import RedisHuey
from mark import mark

huey = RedisHuey("bench", url=os.environ["REDIS_URL"])


@huey.task()
def noop(enqueued_at):
    return mark(enqueued_at)


def open_client():
    """Nothing to open."""


def reset():
    redis.Redis.from_url(os.environ["REDIS_URL"]).flushall()


def worker_command():
    return ["huey_consumer", "huey_redis.huey", "-w", "8", "-k", "thread", "-q"]


def enqueue_one():
    noop(time.time())


def stored():
    return huey.storage.result_store_size()
