"""The connection under a request: whether its client is still there, whose it is, and how it is cut.

ASGI has no word for cutting a connection, nor for whose it is, and tells who has gone to one who asks for more of the
request; so our server puts all of it into the scope.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from starlette.types import Receive, Scope

from langlauf.service.follow import Disconnectable

TRANSPORT = "langlauf.transport"
#: Called with an org, once it is known that the connection is its.
HOLD = "langlauf.hold"
#: Called with what is to be called when the client has gone, or with None to forget it.
WATCH = "langlauf.watch"


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The connection of a request, where our own server serves it."""
    return scope.get(TRANSPORT)


def watch_client(scope: Scope, receive: Receive, waiting: Disconnectable) -> Callable[[], object]:
    """Tells a stream or a poll when its client has gone, also while nothing is sent. What it returns ends that."""
    watch: Callable[[Callable[[], None] | None], None] | None = scope.get(WATCH)
    if watch is not None:
        watch(waiting.leave)
        return partial(watch, None)
    return asyncio.create_task(_until_gone(receive, waiting), name="client").cancel


async def _until_gone(receive: Receive, waiting: Disconnectable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    waiting.leave()


def abort_connection(scope: Scope) -> None:
    """Ends a connection whose client does not read: closing it would wait for the client."""
    transport = transport_of(scope)
    if transport is not None:  # another server than ours closes the connection of an answer that was not completed
        transport.abort()


def count_for_org(scope: Scope, org_id: str) -> None:
    """Count the connection for an org from here on; raise the problem where the org has its part and more."""
    hold: Callable[[str], None] | None = scope.get(HOLD)
    if hold is not None:
        hold(org_id)
