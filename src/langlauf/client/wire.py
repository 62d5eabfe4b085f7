"""Between our values and the HTTP library, for both clients."""

from typing import Any

import httpx2

from langlauf.client.core import Core
from langlauf.client.exchange import Lost, Reply, Request


def settings_of(core: Core) -> dict[str, Any]:
    """How the library's client is made."""
    return {"base_url": core.url, "headers": core.headers, "follow_redirects": False}


def arguments_of(request: Request, timeout: float) -> dict[str, Any]:
    """How the library is asked to send a request."""
    seconds = timeout + request.extra
    return {
        "method": request.method,
        "url": request.path,
        "params": request.params or None,
        "headers": request.headers,
        "content": request.body,
        "timeout": seconds if request.at_most is None else min(seconds, request.at_most),
    }


def reply_of(core: Core, response: httpx2.Response) -> Reply:
    """What came back."""
    core.met = True
    return Reply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def lost_of(core: Core, error: httpx2.RequestError) -> Lost:
    """That nothing came back, and why."""
    return Lost(core.url, str(error) or type(error).__name__)
