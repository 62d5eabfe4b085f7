"""FastAPI + Procrastinate."""

import time
from contextlib import asynccontextmanager

from fastapi_api import make_api
from procrastinate_postgres import app as tasks
from procrastinate_postgres import noop


@asynccontextmanager
async def lifespan(_app):
    async with tasks.open_async():
        yield


async def enqueue():
    return await noop.defer_async(enqueued_at=time.time())


async def read(job_id):
    found = await tasks.job_manager.get_job_status_async(int(job_id))
    return {"done": found.value == "succeeded", "state": found.value}


api = make_api(lifespan, enqueue, read)
