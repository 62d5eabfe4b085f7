"""Host names that a server without keys answers to: protection against DNS rebinding.

A website can resolve its own name to 127.0.0.1. To a browser, its pages then have the origin of this server, and may
read and change everything here. They cannot send another `Host` than their own name. So a server without keys, meant
for this machine, only answers to IP addresses, to `localhost` and to its configured names.
"""

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request

from langlauf.domain.ssrf import is_loopback
from langlauf.problems import forbidden
from langlauf.settings import Settings

#: Scope key under which our server passes the allowed names; None allows any name.
ALLOWED_HOSTS = "langlauf.names"
_LOCAL = "localhost"


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Return the host names of the settings."""
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    return frozenset({_LOCAL, settings.host.lower(), public or _LOCAL})


def check_host(request: Request) -> None:
    """Raise 403 where `Host` is not an allowed name."""
    names: frozenset[str] | None = request.scope.get(ALLOWED_HOSTS)
    host = request.headers.get("host")
    if names is None or host is None or _is_ours(host, names):
        return
    raise forbidden(
        "unknown_host",
        "Without keys, this server answers only to names that it knows, and the one in Host is none of them: use "
        "localhost, or set LANGLAUF_PUBLIC_URL on the server.",
    )


def serves_this_machine(request: Request, settings: Settings) -> bool:
    """Whether only people on this machine can reach our server: a loopback bind, known names, no public URL.

    A program that Langlauf is mounted in may listen anywhere.
    """
    ours = request.scope.get(ALLOWED_HOSTS) is not None
    return ours and settings.public_url is None and is_loopback(settings.host)


@lru_cache(256)
def _is_ours(host: str, names: frozenset[str]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    return name in names or name.endswith(f".{_LOCAL}") or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether it is an IP address: an address cannot be redirected by DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
