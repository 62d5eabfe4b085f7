"""The FastAPI part of the stacks of arq and Procrastinate, as their documents show it."""

from fastapi import FastAPI
from pydantic import BaseModel


class Submission(BaseModel):
    task: str
    payload: dict


def make_api(lifespan, enqueue, read):
    """Return the application: `enqueue()` returns a job's id, `read(id)` the body of its status."""
    api = FastAPI(lifespan=lifespan)

    @api.post("/jobs", status_code=202)
    async def submit(body: Submission):
        return {"id": await enqueue()}

    @api.get("/jobs/{job_id}")
    async def status(job_id: str):
        return {"id": job_id, **await read(job_id)}

    return api
