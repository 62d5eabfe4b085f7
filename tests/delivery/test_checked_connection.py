"""Connections to checked places: which are refused, which address is tried next, and what a deadline leaves open."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import uvloop

from langlauf.delivery import checked_http
from langlauf.delivery.checked_http import (
    ConnectionPolicy,
    Resolver,
    TooManyLookups,
    open_checked,
    resolve_checked,
    tls_context,
)
from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.webhook import WebhookUrl, read_webhook_url

HOME = (ip_network("127.0.0.0/8"),)
#: Seconds to wait for what will come, on a machine however busy.
PATIENCE = 60.0


async def _call(url: str, policy: ConnectionPolicy, deadline: asyncio.Timeout | None = None) -> str:
    """Who is at the other end."""
    until = asyncio.get_running_loop().time() + PATIENCE
    async with (
        deadline or asyncio.timeout_at(until),
        _connected(read_webhook_url(url, HOME), policy, until) as (_, writer),
    ):
        return str(writer.get_extra_info("peername")[0])


@asynccontextmanager
async def _connected(target: WebhookUrl, policy: ConnectionPolicy, until: float) -> AsyncIterator[Any]:
    addresses = await resolve_checked(target, policy, Resolver(1))
    async with open_checked(target, addresses, policy, until=until, limit=1024) as streams:
        yield streams


@contextmanager
def _listening(address: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_server((address, 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.mark.parametrize(
    ("host", "port", "own"),
    [("127.0.0.1", 8080, True), ("127.0.0.9", 8080, True), ("10.1.2.3", 8080, True), ("10.1.2.3", 80, False)],
)
def test_where_this_server_listens_is_not_called(host: str, port: int, own: bool) -> None:
    allow = (*HOME, ip_network("10.0.0.0/8"))
    policy = ConnectionPolicy(trust=tls_context(None), allow=allow, own_host="10.1.2.3", own_port=8080)
    target = read_webhook_url(f"http://{host}:{port}/", allow)
    if own:
        with pytest.raises(WebhookUrlRefused, match="own"):
            policy.check(target, ip_address(host))
    else:
        policy.check(target, ip_address(host))


def test_the_next_address_is_tried_where_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_http, "_look_up", lambda _: [ip_address("127.0.0.2"), ip_address("127.0.0.1")])
    with _listening() as listener:
        url = f"http://receiver:{listener.getsockname()[1]}/"
        assert uvloop.run(_call(url, ConnectionPolicy(trust=tls_context(None), allow=HOME))) == "127.0.0.1"


def test_the_peer_address_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the way lead elsewhere than it was told to, nothing is said there."""
    with _listening() as listener, _listening("127.0.0.3") as elsewhere:
        monkeypatch.setattr(checked_http, "_connect_first", lambda *_: _led_to(elsewhere))
        allow = (ip_network("127.0.0.1/32"),)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(WebhookUrlRefused):
            uvloop.run(_call(url, ConnectionPolicy(trust=tls_context(None), allow=allow)))
        caller, _ = elsewhere.accept()
        with caller:
            assert caller.recv(1) == b""


async def _led_to(listener: socket.socket) -> socket.socket:
    return socket.create_connection(listener.getsockname())


def test_a_missing_handshake_leaves_no_connection_open() -> None:
    with _listening() as mute, pytest.raises(TimeoutError):
        uvloop.run(_held(f"https://127.0.0.1:{mute.getsockname()[1]}/", mute))


async def _held(url: str, mute: socket.socket) -> None:
    """The other end sees the connection close at the deadline, while the caller's loop still runs."""
    deadline = asyncio.timeout(PATIENCE)
    calling = asyncio.create_task(_call(url, ConnectionPolicy(trust=tls_context(None), allow=HOME), deadline))
    caller, _ = await asyncio.to_thread(mute.accept)
    caller.settimeout(PATIENCE)
    with caller:
        deadline.reschedule(asyncio.get_running_loop().time())  # the connection is open: now the time is over
        await asyncio.to_thread(_read_out, caller)
    await calling


def _read_out(caller: socket.socket) -> None:
    while caller.recv(4096):
        pass


def test_unanswered_dns_lookups_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def ask(_: str) -> list[object]:
        answered.wait(PATIENCE)
        return []

    monkeypatch.setattr(checked_http, "_look_up", ask)

    async def main() -> None:
        resolver = Resolver(2)
        waiting = [asyncio.create_task(resolver.addresses("a")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyLookups):
            await resolver.addresses("b")
        waiting[0].cancel()
        await asyncio.sleep(0)
        with pytest.raises(TooManyLookups):  # the lookup still runs, although its caller is gone
            await resolver.addresses("b")
        answered.set()
        assert await waiting[1] == []
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    assert await resolver.addresses("b") == []
                except TooManyLookups:
                    await asyncio.sleep(0.01)
                else:
                    return

    asyncio.run(main())
