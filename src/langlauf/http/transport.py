"""The connection under a request: ASGI has no word for cutting it, nor for whose it is, so our server adds them."""

import asyncio
from collections.abc import Callable

from starlette.types import Scope

TRANSPORT = "langlauf.transport"
#: Called with an org, once it is known that the connection is its.
HOLD = "langlauf.hold"


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The connection of a request, where our own server serves it."""
    return scope.get(TRANSPORT)


def hold_for_org(scope: Scope, org_id: str) -> None:
    """Count the connection for an org from here on; raise the problem where the org has its part and more."""
    hold: Callable[[str], None] | None = scope.get(HOLD)
    if hold is not None:
        hold(org_id)
