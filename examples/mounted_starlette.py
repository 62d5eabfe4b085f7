"""A Starlette application that has Langlauf under a prefix: its own pages beside durable jobs.

    uvicorn mounted_starlette:app --port 8082 --timeout-graceful-shutdown 5

Then `POST /tools/analyze` accepts jobs. A mounted application does not get lifespan messages, so the outer lifespan
enters that of Langlauf: it opens the store and runs the worker.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from langlauf import Job, Langlauf

jobs = Langlauf()


@jobs.analysis
async def word_count(job: Job, text: str) -> dict[str, int]:
    """Counts the words of a text."""
    await job.progress(50, step="Counting")
    return {"words": len(text.split())}


async def home(_: Request) -> Response:
    """A page of the outer application."""
    return PlainTextResponse("POST /tools/analyze takes a text and counts its words.\n")


async def count_later(request: Request) -> Response:
    """Submits a job without HTTP; it is on disk when `submit` returns."""
    job = await jobs.submit("word_count", text=request.path_params["text"], allow_duplicate=True)
    return JSONResponse({"job_id": job.job_id, "status_url": f"/tools/analyze/jobs/{job.job_id}"}, 202)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Opens what the application needs, Langlauf among it, and closes it in the opposite order."""
    async with jobs.lifespan():
        yield


app = Starlette(
    routes=[
        Route("/", home),
        Route("/count/{text}", count_later, methods=["POST"]),
        Mount("/tools", jobs.asgi()),
    ],
    lifespan=lifespan,
)
