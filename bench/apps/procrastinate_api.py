"""FastAPI + Procrastinate, as their documents show them."""

import time
from contextlib import asynccontextmanager

from fastapi import FastAPI
from procrastinate_postgres import app as tasks
from procrastinate_postgres import noop
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(_app):
    async with tasks.open_async():
        yield


api = FastAPI(lifespan=lifespan)


class Submission(BaseModel):
    task: str
    payload: dict


@api.post("/jobs", status_code=202)
async def submit(body: Submission):
    return {"id": await noop.defer_async(enqueued_at=time.time())}


@api.get("/jobs/{job_id}")
async def status(job_id: int):
    found = await tasks.job_manager.get_job_status_async(job_id)
    return {"id": job_id, "done": found.value == "succeeded", "state": found.value}
