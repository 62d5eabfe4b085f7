"""ASGI beyond the standard: what our server adds to the scope of a request, mounting, and large responses in chunks.

ASGI cannot abort a connection, does not say which org a connection serves, and reports a disconnect only to a caller
that waits for more of the request; so our server puts callables for that into the scope.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langlauf.clock import draw
from langlauf.domain.errors import LanglaufError, PayloadGone, ResponseMemoryFull, StoreError
from langlauf.domain.result import SMALL_PAYLOAD, PayloadSource
from langlauf.problems import Problem
from langlauf.service.follower import Disconnectable
from langlauf.service.request_limits import ResponseMemory
from langlauf.telemetry.log import LogEvent, log_event

TRANSPORT = "langlauf.transport"
#: Called with an org, once the caller of the connection is known.
COUNT_FOR_ORG = "langlauf.count_for_org"
#: Called with a callback for the disconnect of the client, or with None to remove it.
WATCH_CLIENT = "langlauf.watch_client"


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """Return the connection of a request, or None under another server."""
    return scope.get(TRANSPORT)


def watch_client(scope: Scope, receive: Receive, waiting: Disconnectable) -> Callable[[], object]:
    """Call `waiting.leave` when the client disconnects, also while nothing is sent. Return what stops that."""
    watch: Callable[[Callable[[], None] | None], None] | None = scope.get(WATCH_CLIENT)
    if watch is not None:
        watch(waiting.leave)
        return partial(watch, None)
    return asyncio.create_task(_until_disconnect(receive, waiting), name="client").cancel


async def _until_disconnect(receive: Receive, waiting: Disconnectable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    waiting.leave()


def abort_connection(scope: Scope) -> None:
    """Abort a connection whose client does not read: a close would wait for the client."""
    transport = transport_of(scope)
    if transport is not None:  # another server closes the connection of an incomplete response by itself
        transport.abort()


def count_for_org(scope: Scope, org_id: str) -> None:
    """Count the connection for an org from here on; raise the problem where the org has more than its share."""
    count: Callable[[str], None] | None = scope.get(COUNT_FOR_ORG)
    if count is not None:
        count(org_id)


Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def path_within(scope: Scope) -> str:
    """Return the path below the mount point, or below the prefix that a proxy removed."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path


def root_url(scope: Scope, public_url: str | None) -> str:
    """Return the root of this application as clients see it: the public URL where it is set, else a path."""
    root: str = public_url or scope.get("root_path", "")
    return root.rstrip("/")


class MountedApplication:
    """Dispatches between two applications by prefix, also for frameworks that cannot mount others (Django)."""

    def __init__(self, inner: ASGIApp, lifespan: Lifespan, outer: ASGIApp, prefix: str) -> None:
        self._inner = inner
        self._lifespan = lifespan
        self._outer = outer
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Router(lifespan=lambda _: self._lifespans(scope))(scope, receive, send)
            return
        path = path_within(scope)
        if path.startswith(f"{self._prefix}/"):
            await self._inner({**scope, "root_path": self._root(scope)}, receive, send)
        elif path == self._prefix and scope["type"] == "http":  # relative links on the first page need the slash
            query = scope["query_string"].decode("latin-1")
            address = f"{self._root(scope)}/" + (f"?{query}" if query else "")
            await RedirectResponse(address)(scope, receive, send)
        else:
            await self._outer(scope, receive, send)

    def _root(self, scope: Scope) -> str:
        root: str = scope.get("root_path", "")
        return root.rstrip("/") + self._prefix

    @asynccontextmanager
    async def _lifespans(self, scope: Scope) -> AsyncIterator[None]:
        """Start the outer application after the inner one, and stop it before: it may submit jobs all its life."""
        async with self._lifespan(), outer_lifespan(self._outer, scope):
            yield


@asynccontextmanager
async def outer_lifespan(app: ASGIApp, scope: Scope) -> AsyncIterator[None]:
    """Start and stop an application with the lifespan messages of ASGI; one without lifespan support is left alone."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    life = asyncio.ensure_future(_call(app, scope, to_app, from_app))
    try:
        started = await _send_lifespan("startup", life, to_app, from_app)
        try:
            yield
        finally:
            if started:
                await _send_lifespan("shutdown", life, to_app, from_app)
    except BaseException:
        life.cancel()  # it may wait for a message that will not come
        raise
    finally:
        await asyncio.gather(life, return_exceptions=True)  # it reported its error, or has no lifespan support


async def _call(app: ASGIApp, scope: Scope, to_app: asyncio.Queue[Message], from_app: asyncio.Queue[Message]) -> None:
    await app({**scope, "type": "lifespan"}, to_app.get, from_app.put)


async def _send_lifespan(
    word: str, life: "asyncio.Future[Any]", to_app: asyncio.Queue[Message], from_app: asyncio.Queue[Message]
) -> bool:
    """Send a lifespan message, and return whether the application supports it. Raise where it reports a failure."""
    await to_app.put({"type": f"lifespan.{word}"})
    reply = asyncio.ensure_future(from_app.get())
    await asyncio.wait({life, reply}, return_when=asyncio.FIRST_COMPLETED)
    if not reply.done():
        reply.cancel()
        return False
    message = reply.result()
    if message["type"] == f"lifespan.{word}.failed":
        raise LanglaufError(f"the mounted application failed at {word}: {message.get('message', '')}")
    return True


# -- large responses ---------------------------------------------------------------------------------------------------
# In memory are one chunk and the write buffer, both counted in the memory that all responses share. A client that does
# not read holds that much until the write deadline disconnects it.

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
