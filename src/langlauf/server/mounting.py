"""Beside another application: what lies under a prefix is ours, the rest is theirs, and both live as long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.responses import RedirectResponse
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langlauf.domain.errors import LanglaufError

Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def path_within(scope: Scope) -> str:
    """The path below whatever this application is mounted under, or a proxy before it cut off."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else path


def root_url(scope: Scope, public_url: str | None) -> str:
    """Where this application begins, seen from the caller: the public address where it is known, else a path."""
    root: str = public_url or scope.get("root_path", "")
    return root.rstrip("/")


class MountedApplication:
    """Two applications behind one entrance, for frameworks that cannot mount (Django) as for those that can."""

    def __init__(self, inner: ASGIApp, lifespan: Lifespan, outer: ASGIApp, prefix: str) -> None:
        self._inner = inner
        self._lifespan = lifespan
        self._outer = outer
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Router(lifespan=lambda _: self._alive(scope))(scope, receive, send)
            return
        path = path_within(scope)
        if path.startswith(f"{self._prefix}/"):
            await self._inner({**scope, "root_path": self._root(scope)}, receive, send)
        elif path == self._prefix and scope["type"] == "http":  # links on the first page start from the slash
            query = scope["query_string"].decode("latin-1")
            address = f"{self._root(scope)}/" + (f"?{query}" if query else "")
            await RedirectResponse(address)(scope, receive, send)
        else:
            await self._outer(scope, receive, send)

    def _root(self, scope: Scope) -> str:
        root: str = scope.get("root_path", "")
        return root.rstrip("/") + self._prefix

    @asynccontextmanager
    async def _alive(self, scope: Scope) -> AsyncIterator[None]:
        """The outer application starts when jobs can be submitted, and has stopped before they no longer can."""
        async with self._lifespan(), outer_lifespan(self._outer, scope):
            yield


@asynccontextmanager
async def outer_lifespan(app: ASGIApp, scope: Scope) -> AsyncIterator[None]:
    """Starts and stops an application by the messages a server would send; one that knows none is left alone."""
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
        life.cancel()  # it may wait for a message that nobody will send
        raise
    finally:
        await asyncio.gather(life, return_exceptions=True)  # what it raised it has said, or it knows no lifespan


async def _call(app: ASGIApp, scope: Scope, to_app: asyncio.Queue[Message], from_app: asyncio.Queue[Message]) -> None:
    await app({**scope, "type": "lifespan"}, to_app.get, from_app.put)


async def _send_lifespan(
    word: str, life: "asyncio.Future[Any]", to_app: asyncio.Queue[Message], from_app: asyncio.Queue[Message]
) -> bool:
    """Tells the application, and whether it understood. Where it says that it failed, that is an error here."""
    await to_app.put({"type": f"lifespan.{word}"})
    hearing = asyncio.ensure_future(from_app.get())
    await asyncio.wait({life, hearing}, return_when=asyncio.FIRST_COMPLETED)
    if not hearing.done():
        hearing.cancel()
        return False
    message = hearing.result()
    if message["type"] == f"lifespan.{word}.failed":
        raise LanglaufError(f"the application beside failed at {word}: {message.get('message', '')}")
    return True
