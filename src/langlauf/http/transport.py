"""The connection under a request. ASGI has no word for cutting it, so our server puts it into the scope."""

import asyncio

from starlette.types import Scope

TRANSPORT = "langlauf.transport"


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The connection of a request, where our own server serves it."""
    return scope.get(TRANSPORT)
