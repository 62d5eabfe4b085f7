"""Bare prototype: Starlette + msgspec + group commit on PostgreSQL; its worker is peers/bare_postgres.py."""

import time
from contextlib import asynccontextmanager

import asyncpg
import bare_postgres as bare
import msgspec
from group_commit import GroupCommit
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

_STATUS = """
select bare_jobs.id, state, data from bare_jobs left join bare_results on job_id = bare_jobs.id
where bare_jobs.id = any ($1::bigint[])
"""
reads = None


class Submission(msgspec.Struct):
    task: str
    payload: dict


decode, encode = msgspec.json.Decoder(Submission).decode, msgspec.json.Encoder().encode


@asynccontextmanager
async def lifespan(_app):
    global reads
    await bare.open_client()
    connection = await asyncpg.connect(bare.URL, server_settings=bare.GENERIC)

    async def flush(ids):
        rows = {row[0]: row for row in await connection.fetch(_STATUS, ids)}
        return [rows.get(job_id) for job_id in ids]

    reads = GroupCommit(flush)
    yield


async def submit(request):
    body = decode(await request.body())
    row = await bare.submissions.add(f"{time.time()!r},{bare.PADDING}{body.task}")
    return Response(encode({"id": row[0]}), 202, media_type="application/json")


async def status(request):
    job_id, state, result = await reads.add(int(request.path_params["id"]))
    body = encode({"id": job_id, "done": state == "done", "result": result})
    return Response(body, media_type="application/json")


api = Starlette(routes=[Route("/jobs", submit, methods=["POST"]), Route("/jobs/{id}", status)], lifespan=lifespan)
