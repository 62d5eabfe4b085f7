"""Large responses, streamed in chunks: the next one is read when the client has taken the last.

In memory are one chunk and the write buffer, both counted in the memory that all responses share. A client that does
not read holds that much until the write deadline disconnects it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from langlauf.clock import draw
from langlauf.domain.errors import PayloadGone, ResponseMemoryFull, StoreError
from langlauf.domain.result import SMALL_PAYLOAD, PayloadSource
from langlauf.problems import Problem
from langlauf.server.asgi import abort_connection, transport_of, watch_client
from langlauf.service.request_limits import ResponseMemory
from langlauf.telemetry.log import LogEvent, log_event

#: Bytes passed to the connection at once.
_SLICE = 65_536
#: Bytes in flight to a client that does not read: the high-water mark of a connection, and one slice above it.
_ON_ITS_WAY = 2 * _SLICE
_RETRY_SECONDS, _RETRY_SPREAD = 2, 5


class LargeResponse(Response):
    """A response around a stored payload, which is passed on as it is.

    `gone` is called where the payload was removed in the meantime: it raises the problem.
    """

    def __init__(
        self,
        source: PayloadSource,
        room: ResponseMemory,
        org_id: str,
        *,
        headers: Mapping[str, str],
        media_type: str,
        gone: Callable[[], Awaitable[object]],
        envelope: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        self._source = source
        self._room = room
        self._org_id = org_id
        self._gone = gone
        self._envelope = envelope
        length = sum(map(len, envelope)) + source.size
        self.init_headers({**headers, "Content-Length": str(length)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send(_part(b"", more=False))
            return
        with self._room.share(self._org_id) as share:
            share.take(_ON_ITS_WAY)
            share.take(self._source.holds, self._source.share)
            first = [await self._first()]
            with _client(scope, receive) as client:
                await send(start)
                try:
                    await self._send(first.pop(), client, send)
                except StoreError as error:
                    # Content-Length was sent: a client notices that the response is incomplete.
                    log_event(LogEvent.ANSWER_CUT, logging.WARNING, org_id=self._org_id, reason=str(error))
                    if transport_of(scope) is None:
                        raise
                    abort_connection(scope)

    async def _first(self) -> bytes | memoryview:
        """Read the first chunk before the head is sent: a missing payload can still become a problem."""
        try:
            return await self._source.read(0)
        except PayloadGone:
            await self._gone()
            raise

    async def _send(self, piece: bytes | memoryview, client: "_ClientWatch", send: Send) -> None:
        before, after = self._envelope
        await send(_part(before))
        position = 0
        while not client.left:
            for start in range(0, len(piece), _SLICE):
                await send(_part(bytes(piece[start : start + _SLICE])))
                await asyncio.sleep(0)  # a fast client takes a whole chunk without a pause; let others run
            position += len(piece)
            if position == self._source.size:
                await send(_part(after, more=False))
                return
            piece = b""  # freed before the client has room for the next
            await send(_part(b""))
            piece = await self._source.read(position)


class BufferedResponse(Response):
    """A large response that is in memory already: counted until it is sent, and sent in slices."""

    def __init__(self, response: Response, room: ResponseMemory, org_id: str) -> None:
        self.status_code = response.status_code
        self.background = None
        self.raw_headers = response.raw_headers
        self._body = bytes(response.body)
        self._room = room
        self._org_id = org_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as every answer
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        with self._room.share(self._org_id) as share:
            share.take(len(self._body))
            await send(start)
            for position in range(0, len(self._body), _SLICE):
                more = position + _SLICE < len(self._body)
                await send(_part(self._body[position : position + _SLICE], more=more))
                await asyncio.sleep(0)


class _ClientWatch:
    """Whether the client of a response has disconnected."""

    left = False

    def leave(self) -> None:
        self.left = True


@contextmanager
def _client(scope: Scope, receive: Receive) -> Iterator[_ClientWatch]:
    """Watch for a disconnect: an application that only sends would not notice it."""
    client = _ClientWatch()
    end = watch_client(scope, receive, client)
    try:
        yield client
    finally:
        end()


def _part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def limit_response_memory(response: Response, room: ResponseMemory, org_id: str) -> Response:
    """Return the response as it is, or one that counts its memory while it is sent."""
    body = getattr(response, "body", b"")
    return BufferedResponse(response, room, org_id) if len(body) > SMALL_PAYLOAD else response


def response_memory_full(error: ResponseMemoryFull) -> Problem:
    """Return a problem with a jittered Retry-After, so that refused clients do not retry all at once."""
    seconds = _RETRY_SECONDS + int(_RETRY_SPREAD * draw())
    headers = {"Retry-After": str(seconds)}
    if error.scope == "org":
        message = f"Too many large responses of this org are being sent: read them, or try again in {seconds} s."
        return Problem(429, "rate_limited", message, headers=headers)
    return Problem(503, "unavailable", "Too many large responses are being sent; try again.", headers=headers)
