"""FastAPI + arq."""

import time
from contextlib import asynccontextmanager

from arq import create_pool
from arq.jobs import Job
from arq_redis import SETTINGS
from fastapi_api import make_api

pool = None


@asynccontextmanager
async def lifespan(_app):
    global pool
    pool = await create_pool(SETTINGS)
    yield


async def enqueue():
    return (await pool.enqueue_job("noop", time.time())).job_id


async def read(job_id):
    info = await Job(job_id, pool).result_info()
    return {"done": info is not None, "result": info.result if info else None}


api = make_api(lifespan, enqueue, read)
