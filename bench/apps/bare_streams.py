"""Idle event streams: Starlette's StreamingResponse with a queue for each client, as its users write it."""

import asyncio

from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route


async def stream(_request):
    async def events():
        queue = asyncio.Queue(16)
        yield b"event: hello\ndata: 1\n\n"
        while True:
            try:
                yield await asyncio.wait_for(queue.get(), 15)
            except TimeoutError:
                yield b": ping\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


api = Starlette(routes=[Route("/stream", stream)])
