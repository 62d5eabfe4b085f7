"""A FastAPI application that has Langlauf under a prefix, behind its own sign-in.

    uvicorn mounted_fastapi:app --port 8083 --timeout-graceful-shutdown 5

Then `POST /tools/analyze` accepts jobs of the org that the token belongs to. Dependencies of FastAPI do not reach into
a mounted application: what stands before the mount is plain ASGI, and it decides the org, whatever the caller sends.
"""

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf import Job, Langlauf

ORGS = {"token-of-ada": "ada-ltd", "token-of-bob": "bob-inc"}  # stands for your users
jobs = Langlauf()


@jobs.analysis
async def word_count(job: Job, text: str) -> dict[str, int]:
    """Counts the words of a text."""
    await job.progress(50, step="Counting")
    return {"words": len(text.split())}


class SignedIn:
    """Authenticates requests by a known token, and sets the org of that token."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        org = ORGS.get(Headers(scope=scope).get("authorization", "").removeprefix("Bearer "))
        if org is None:
            refused = JSONResponse({"detail": "Who is this?"}, 401, {"WWW-Authenticate": "Bearer"})
            await refused(scope, receive, send)
            return
        headers = MutableHeaders(raw=[one for one in scope["headers"] if one[0] not in (b"x-org-id", b"x-tenant-id")])
        headers["X-Org-Id"] = org
        await self.app({**scope, "headers": headers.raw}, receive, send)


async def org_of(shown: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """The same question, for the routes of FastAPI itself."""
    if shown.credentials not in ORGS:
        raise HTTPException(403, "Who is this?")
    return ORGS[shown.credentials]


# `lifespan` opens the store and runs the worker. Where there is more to open, write a lifespan that enters it.
app = FastAPI(lifespan=jobs.lifespan)
app.mount("/tools", SignedIn(jobs.asgi()))


@app.post("/count/{text}", status_code=202)
async def count_later(text: str, org: Annotated[str, Depends(org_of)]) -> dict[str, str]:
    """Submits a job without HTTP; it is on disk when `submit` returns."""
    job = await jobs.submit("word_count", text=text, org=org, allow_duplicate=True)
    return {"job_id": job.job_id, "status_url": f"/tools/analyze/jobs/{job.job_id}"}
