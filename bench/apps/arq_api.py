"""FastAPI + arq, as their documents show them."""

import time
from contextlib import asynccontextmanager

from arq import create_pool
from arq.jobs import Job
from arq_redis import SETTINGS
from fastapi import FastAPI
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(app):
    app.state.pool = await create_pool(SETTINGS)
    yield


api = FastAPI(lifespan=lifespan)


class Submission(BaseModel):
    task: str
    payload: dict


@api.post("/jobs", status_code=202)
async def submit(body: Submission):
    job = await api.state.pool.enqueue_job("noop", time.time())
    return {"id": job.job_id}


@api.get("/jobs/{job_id}")
async def status(job_id: str):
    info = await Job(job_id, api.state.pool).result_info()
    return {"id": job_id, "done": info is not None, "result": info.result if info else None}
