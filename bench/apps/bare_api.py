"""The HTTP API of the bare prototypes: Starlette + msgspec, over the functions of one store."""

import time

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


class Submission(msgspec.Struct):
    task: str
    payload: dict


decode, encode = msgspec.json.Decoder(Submission).decode, msgspec.json.Encoder().encode


def make_api(lifespan, padding, insert, read):
    """Return the application: `insert(payload)` returns a job's id, `read(id)` its id, state and result."""

    async def submit(request):
        body = decode(await request.body())
        job_id = await insert(f"{time.time()!r},{padding}{body.task}")
        return Response(encode({"id": job_id}), 202, media_type="application/json")

    async def status(request):
        job_id, state, result = await read(int(request.path_params["id"]))
        body = encode({"id": job_id, "done": state == "done", "result": result})
        return Response(body, media_type="application/json")

    routes = [Route("/jobs", submit, methods=["POST"]), Route("/jobs/{id}", status)]
    return Starlette(routes=routes, lifespan=lifespan)
