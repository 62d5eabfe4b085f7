"""Bare Starlette + msgspec: answers every request with the document in the file BENCH_DOCUMENT, encoded each time."""

import os
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

DOCUMENT = msgspec.json.decode(Path(os.environ["BENCH_DOCUMENT"]).read_bytes())
encode = msgspec.json.Encoder().encode


async def status(_request):
    return Response(encode(DOCUMENT), media_type="application/json")


api = Starlette(routes=[Route("/analyze/jobs/{job_id}", status)])
