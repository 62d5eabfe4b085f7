"""The connection under a request: whether its client is still there, whose it is, and how it is cut.

ASGI has no word for cutting a connection, nor for whose it is, so our server puts both into the scope.
"""

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Scope

from langlauf.service.follow import Leaves

TRANSPORT = "langlauf.transport"
#: For a connection that was cut to be gone.
_CUT_SECONDS = 1.0
#: Called with an org, once it is known that the connection is its.
HOLD = "langlauf.hold"


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The connection of a request, where our own server serves it."""
    return scope.get(TRANSPORT)


async def watch_client(receive: Receive, waiting: Leaves) -> None:
    """Tells a stream or a poll when its client has gone, also while nothing is sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
    waiting.leave()


async def cut(scope: Scope, watching: "asyncio.Task[None]") -> None:
    """Ends a connection whose client does not read: closing it would wait for the client."""
    transport = transport_of(scope)
    if transport is None:
        return  # another server than ours: it closes the connection of an answer that was not completed
    transport.abort()
    await asyncio.wait({watching}, timeout=_CUT_SECONDS)


def hold_for_org(scope: Scope, org_id: str) -> None:
    """Count the connection for an org from here on; raise the problem where the org has its part and more."""
    hold: Callable[[str], None] | None = scope.get(HOLD)
    if hold is not None:
        hold(org_id)
