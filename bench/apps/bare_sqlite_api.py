"""Bare prototype: Starlette + msgspec + group commit on SQLite; its worker is peers/bare_sqlite.py."""

from contextlib import asynccontextmanager

import bare_sqlite as bare
from bare_api import make_api

reader = None


@asynccontextmanager
async def lifespan(_app):
    global reader
    await bare.open_client()
    reader = bare.connect()
    yield


async def insert(payload):
    return await bare.submissions.add(payload)


async def read(job_id):
    # A read by primary key from the page cache takes about ten microseconds: a hop to a thread would cost more.
    return reader.execute("select id, state, result from jobs where id = ?", (job_id,)).fetchone()


api = make_api(lifespan, bare.PADDING, insert, read)
