"""Connections to addresses that were checked, and to no others.

A name is resolved once, and every address it resolves to is checked: one forbidden address refuses them all. The
connection goes to a checked address, not to the name, so that a second DNS answer cannot redirect it (DNS rebinding);
the peer address is checked again once connected. The certificate is verified against the name.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import msgspec

from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.ssrf import Address, Network, unwrap_mapped
from langlauf.domain.webhook import WebhookUrl, check_address


class TooManyQuestions(OSError):
    """So many names are being asked for without an answer that no more are asked for now."""


class Resolver:
    """Asks the system what names stand for, for a few at once."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)

    async def addresses(self, host: str) -> list[Address]:
        """All addresses of a name, each once, in the order of the system. An `OSError` says that there are none."""
        if not self._places.acquire(blocking=False):
            raise TooManyQuestions("too many names are being asked for without an answer")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def settle(deliver: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if answer.done() else deliver())

        def ask() -> None:
            try:
                found = _ask(host)
            except OSError as error:
                refused = error  # the name of the exception ends with its block
                settle(lambda: answer.set_exception(refused))
            else:
                settle(lambda: answer.set_result(found))
            finally:
                self._places.release()

        threading.Thread(target=ask, name="langlauf-resolver", daemon=True).start()
        return await answer


def _ask(host: str) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(unwrap_mapped(ip_address(place[0])) for *_, place in found))


#: More than these are judged, but not tried.
_MOST_TRIED = 4
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """Whom we may call for an org, and whose word about who they are we take."""

    trust: ssl.SSLContext
    #: the ranges that the operator named for this org and for all
    allow: tuple[Network, ...] = ()
    #: where this very server listens
    own_host: str = ""
    own_port: int = 0

    def check(self, target: WebhookUrl, address: Address) -> None:
        """Refuses an address that must not be called."""
        check_address(target, address, self.allow)
        if target.port == self.own_port and (address.is_loopback or str(address) == self.own_host):
            raise WebhookUrlRefused("the address is this server's own: a webhook must go to another one")


def trust_in(ca_file: str | None) -> ssl.SSLContext:
    """The authorities of this system, and one of the operator's own where there is one."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def checked_addresses(target: WebhookUrl, doors: Doors, resolver: Resolver) -> list[Address]:
    """All that a target stands for; `WebhookUrlRefused` where one of them must not be called."""
    found = [target.address] if target.address is not None else await resolver.addresses(target.host)
    addresses = [unwrap_mapped(address) for address in found]
    for address in addresses:
        doors.check(target, address)
    return addresses


@asynccontextmanager
async def connected(
    target: WebhookUrl, addresses: Sequence[Address], doors: Doors, *, until: float, limit: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a target at addresses that were checked, cut off at the end.

    `until` is when all must be over, by the clock of the loop.
    """
    open_socket = await _first_open(addresses[:_MOST_TRIED], target.port, until)
    try:
        doors.check(target, unwrap_mapped(ip_address(open_socket.getpeername()[0])))
    except BaseException:
        open_socket.close()
        raise
    secure = target.scheme == "https"
    reader, writer = await asyncio.open_connection(
        sock=open_socket,
        limit=limit,
        ssl=doors.trust if secure else None,
        server_hostname=target.host if secure else None,
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # a farewell could be drawn out by whoever is there


async def _first_open(addresses: Sequence[Address], port: int, until: float) -> socket.socket:
    """The first address that can be reached; each has its share of the time, so that the last one has some."""
    last: OSError = OSError("the name stands for no address")
    now = asyncio.get_running_loop().time
    for place, address in enumerate(addresses):
        share = (until - now()) / (len(addresses) - place)
        try:
            return await _open(address, port, share)
        except OSError as error:  # a timeout is one, too
            last = error
    raise last


async def _open(address: Address, port: int, seconds: float) -> socket.socket:
    made = socket.socket(_FAMILIES[address.version], socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(made, (str(address), port))
    except BaseException:
        made.close()
        raise
    return made
