"""ASGI beyond the standard: what our server adds to the scope of a request, and mounting beside another application.

ASGI cannot abort a connection, does not say which org a connection serves, and reports a disconnect only to a caller
that waits for more of the request; so our server puts callables for that into the scope."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from starlette.responses import RedirectResponse
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langlauf.domain.errors import LanglaufError
from langlauf.service.follower import Disconnectable

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
