"""Bare prototype: Starlette + msgspec + group commit on SQLite; its worker is peers/bare_sqlite.py."""

import time
from contextlib import asynccontextmanager

import bare_sqlite as bare
import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

reader = None


class Submission(msgspec.Struct):
    task: str
    payload: dict


decode, encode = msgspec.json.Decoder(Submission).decode, msgspec.json.Encoder().encode


@asynccontextmanager
async def lifespan(_app):
    global reader
    await bare.open_client()
    reader = bare.connect()
    yield


async def submit(request):
    body = decode(await request.body())
    job_id = await bare.submissions.add(f"{time.time()!r},{bare.PADDING}{body.task}")
    return Response(encode({"id": job_id}), 202, media_type="application/json")


async def status(request):
    # A read by primary key from the page cache takes about ten microseconds: a hop to a thread would cost more.
    found = reader.execute("select id, state, result from jobs where id = ?", (int(request.path_params["id"]),))
    job_id, state, result = found.fetchone()
    body = encode({"id": job_id, "done": state == "done", "result": result})
    return Response(body, media_type="application/json")


api = Starlette(routes=[Route("/jobs", submit, methods=["POST"]), Route("/jobs/{id}", status)], lifespan=lifespan)
