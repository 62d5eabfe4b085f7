"""By which names a server is called that asks nobody for a key.

A website can let its own name lead to 127.0.0.1. For a browser its pages are then of this very origin: they may read
and change everything here. What they cannot do is to call this server by another name than their own. So one that is
open, and is meant for this machine, answers to addresses, to `localhost` and to the names it was given.
"""

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request

from langlauf.problems import forbidden
from langlauf.settings import Settings

#: Where our server tells the application its names; it tells none where any will do.
ALLOWED_HOSTS = "langlauf.names"
_LOCAL = "localhost"


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """The names that the settings give to the server."""
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    return frozenset({_LOCAL, settings.host.lower(), public or _LOCAL})


def check_host(request: Request) -> None:
    """Raises where the request calls the server by a name that is not its own."""
    names: frozenset[str] | None = request.scope.get(ALLOWED_HOSTS)
    host = request.headers.get("host")
    if names is None or host is None or _is_ours(host, names):
        return
    raise forbidden(
        "This server does not know itself by the name in Host: use localhost, or tell it with LANGLAUF_PUBLIC_URL."
    )


@lru_cache(256)
def _is_ours(host: str, names: frozenset[str]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    return name in names or name.endswith(f".{_LOCAL}") or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether it is no name at all: nobody can lead an address elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
