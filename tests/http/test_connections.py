"""Clients that drip, flood, lie or never read: each is cut off in time, hears why, and harms nobody else."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Semaphore

import pytest
from starlette.types import Message

from langlauf import Langlauf
from langlauf.server.connection import HttpConnection
from langlauf.server.connection_limit import RESERVE
from langlauf.settings import load_settings
from tests.http.test_errors import assert_problem
from tests.support.live import Live, live
from tests.support.processes import eventually
from tests.support.raw_http import RawConnection, get, post

HEAD, BODY, WRITE = 0.5, 0.8, 0.5
LARGEST = 500_000
#: bytes of one answer that the buffers of the system between server and client never hold
BEYOND_BUFFERS = 16_000_000


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that waits for nobody for long."""
    limits = {
        "LANGLAUF_LIMITS": f"head_seconds={HEAD}; body_seconds={BODY}; write_seconds={WRITE}",
        "LANGLAUF_MAX_BODY": str(LARGEST),
    }
    with live(tmp_path_factory.mktemp("quick"), None, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server for clients of which none is late, however busy the machine is."""
    limits = "head_seconds=60; body_seconds=60; write_seconds=60"
    with live(
        tmp_path_factory.mktemp("patient"), None, LANGLAUF_MAX_BODY=str(LARGEST), LANGLAUF_LIMITS=limits
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def no_trace(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client sends, the log has neither a warning nor a trace of it."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def descriptors() -> int:
    """How many files and sockets this process, and with it the server, has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


UNREADABLE = {
    "no HTTP": b"hello\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "HTTP/3": b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": get("/health", "Host: y"),
    "two lengths": post(b"{}", "Content-Length: 3"),
    "length and chunks": post(b"{}", "Transfer-Encoding: chunked"),
    "zipped chunks": b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a length that is none": b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a length without end": b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    "a space in a name": get("/health", "X-Y : 1"),
    "a folded line": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Y: 1\r\n 2\r\n\r\n",
    "NUL in a value": get("/health", "X-Y: \x00"),
    "no such method": b"GRAB /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no path": b"GET http://x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tunnel": b"CONNECT x:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "letters that are not ASCII": "GET /ä HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "a chunk that is none": b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_what_cannot_be_read_is_a_problem_like_any_other(patient: Live, name: str) -> None:
    """400 in our shape, and the connection ends in order."""
    with RawConnection(patient.url) as wire:
        wire.send(UNREADABLE[name])
        reply = wire.reply()
        reply.assert_problem(400, "bad_request")
        assert reply.headers["connection"] == "close"
        assert wire.closed()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/health?" + "x" * 9_000), 414),
        (get("/health", "X-Long: " + "y" * 17_000), 431),
        (get("/health", *(f"X-{n}: 1" for n in range(100))), 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Endless: " + b"z" * 60_000, 431),
        (b"GET /" + b"z" * 60_000, 414),
    ],
)
def test_a_head_has_bounds(patient: Live, request_bytes: bytes, status: int) -> None:
    """Too long an address, too many or too large headers: refused as soon as that is clear."""
    with RawConnection(patient.url) as wire:
        wire.send(request_bytes)
        wire.reply().assert_problem(status, "head_too_large")
        assert wire.closed()


def test_a_head_within_the_bounds_is_read(patient: Live) -> None:
    """The bounds are bounds, not targets: just below them a request is like any other."""
    with RawConnection(patient.url) as wire:
        wire.send(get("/health", "X-Long: " + "y" * 15_000, *(f"X-{n}: 1" for n in range(95))))
        assert wire.reply().status == 200


@pytest.mark.parametrize("start", [b"", b"GET /hea", get()[:-2], b"POST /analyze HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(quick: Live, start: bytes) -> None:
    """408 after the deadline, and nothing for a client that never said a word."""
    began = time.monotonic()
    with RawConnection(quick.url) as wire:
        wire.send(start)
        if start:
            wire.reply().assert_problem(408, "request_timeout")
        assert wire.closed()
    assert time.monotonic() - began > HEAD * 0.9


def test_a_head_that_drips_is_late_all_the_same(quick: Live) -> None:
    """The deadline is for the whole head: bytes that keep coming do not move it, on a used connection neither."""
    with RawConnection(quick.url) as wire:
        wire.send(get())
        assert wire.reply().status == 200
        began = time.monotonic()
        wire.socket.settimeout(HEAD / 10)
        for byte in get("/health", "X-Drip: " + "y" * 1_000):
            wire.send(bytes([byte]))
            try:
                reply = wire.reply()
                break
            except TimeoutError:
                continue
        reply.assert_problem(408, "request_timeout")
    assert time.monotonic() - began > HEAD * 0.9


@pytest.mark.parametrize("path", ["/analyze", "/analyze/jobs/x/cancel"])
def test_a_body_that_does_not_come_is_not_waited_for(quick: Live, path: str) -> None:
    """408 after the deadline; nothing was accepted."""
    began = time.monotonic()
    with RawConnection(quick.url) as wire:
        wire.send(post(b'{"query"', path=path, length=1_000))
        wire.reply().assert_problem(408, "request_timeout")
        assert wire.closed()
    assert time.monotonic() - began > BODY * 0.9


def test_a_body_that_is_announced_too_large_is_not_asked_for(patient: Live) -> None:
    """413 and no `100 Continue`, so a client that asks first sends nothing."""
    with RawConnection(patient.url) as wire:
        wire.send(post(b"", "Expect: 100-continue", length=LARGEST + 1))
        reply = wire.reply()
        assert reply.assert_problem(413, "payload_too_large")["limit_bytes"] == LARGEST
        assert reply.headers["connection"] == "close"
        assert wire.closed()
    with RawConnection(patient.url) as wire:
        wire.send(post(b"", "Expect: 100-continue", length=len(b'{"query": "x"}')))
        assert wire.reply().status == 100
        wire.send(b'{"query": "x"}')
        assert wire.reply().status == 202


def test_a_client_that_sends_on_still_hears_why_it_was_refused(patient: Live) -> None:
    """It sends megabytes before it looks: the answer is there, not a reset."""
    with RawConnection(patient.url) as wire:
        wire.send(post(b"", length=4_000_000))
        wire.send(b"x" * 4_000_000)
        wire.reply().assert_problem(413, "payload_too_large")
        assert wire.closed()


def test_chunks_are_counted_while_they_are_read(patient: Live) -> None:
    """Nobody announced them, and they are refused at the byte that is too much."""
    with RawConnection(patient.url) as wire:
        fields = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire.send(b"POST /analyze HTTP/1.1\r\n" + fields)
        for _ in range(LARGEST // 10_000 + 1):
            wire.send(b"2710\r\n" + b" " * 10_000 + b"\r\n")
        wire.reply().assert_problem(413, "payload_too_large")
        assert wire.closed()


def test_an_endless_body_is_read_away_only_up_to_a_point(patient: Live) -> None:
    """A client that never stops is cut off, long before it has sent what it announced."""
    with RawConnection(patient.url) as wire:
        wire.send(post(b"", length=10**9))
        assert _sent_until_cut_off(wire, b"x" * 1_000_000, seconds=60) < 10**8


def test_a_body_that_nobody_reads_ends_the_connection(patient: Live) -> None:
    """A request that is answered without its body is answered at once."""
    with RawConnection(patient.url) as wire:
        wire.send(get("/health", "Content-Length: 100000"))
        reply = wire.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert wire.closed()


def test_a_short_body_that_nobody_reads_keeps_the_connection(patient: Live) -> None:
    """Whether its packet came before the answer or after it makes no difference that anybody sees."""
    with RawConnection(patient.url) as wire:
        for late in (False, True):
            body = b"" if late else b"x" * 50
            wire.send(get("/health", "Content-Length: 50") + body)
            reply = wire.reply()
            assert reply.status == 200
            assert "connection" not in reply.headers
            if late:
                wire.send(b"x" * 50)
        wire.send(get("/health"))
        assert wire.reply().status == 200


def test_a_short_body_that_never_comes_is_not_waited_for_either(quick: Live) -> None:
    """Its request was answered; the connection ends without another word."""
    with RawConnection(quick.url) as wire:
        wire.send(get("/health", "Content-Length: 50"))
        assert wire.reply().status == 200
        assert wire.closed()


def test_a_complete_body_keeps_the_connection(patient: Live) -> None:
    """Closing is for what went wrong."""
    with RawConnection(patient.url) as wire:
        for _ in range(3):
            wire.send(post(b'{"query": "x"}'))
            reply = wire.reply()
            assert reply.status == 202
            assert "connection" not in reply.headers


def test_requests_ahead_of_their_answers_are_answered_in_order(patient: Live) -> None:
    """A few are an ordinary client."""
    with RawConnection(patient.url) as wire:
        wire.send(b"".join(get("/health", f"X-Request-Id: n{n}") for n in range(10)))
        assert [wire.reply().headers["x-request-id"] for _ in range(10)] == [f"n{n}" for n in range(10)]


def test_a_head_is_not_measured_by_what_came_with_it(patient: Live) -> None:
    """The body of the request before it stands in the same packet, and is no part of it."""
    following = get("/health")
    with RawConnection(patient.url) as wire:
        wire.send(post(b" " * 60_000 + b'{"query":"x"}') + following[:20])
        assert wire.reply().status == 202
        wire.send(following[20:])
        assert wire.reply().status == 200


def test_a_flood_of_requests_is_cut_off(patient: Live) -> None:
    """Some are answered, then the connection ends; thousands of them are not kept."""
    with RawConnection(patient.url) as wire:
        wire.send(get() * 5_000)
        answered = wire.rest().count(b"HTTP/1.1 200 OK")
        assert 1 <= answered <= 20


@pytest.mark.parametrize("cut", [0, 40, -5])
def test_an_upgrade_is_not_taken(patient: Live, cut: int) -> None:
    """The request is answered in the protocol it came in; its body is a body, whatever it looks like."""
    body = b'{"query": "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"}'
    upgraded = post(body, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA")
    with RawConnection(patient.url) as wire:
        for data in (upgraded, get("/health", "Connection: upgrade", "Upgrade: websocket"), upgraded):
            wire.send(data[:cut])
            wire.send(data[cut:])
            assert wire.reply().status == (202 if data is upgraded else 200)


def test_a_body_behind_an_upgrade_is_no_request(patient: Live) -> None:
    """Nobody smuggles a request in the body of another one."""
    hidden = get("/health", "X-Request-Id: hidden")
    with RawConnection(patient.url) as wire:
        wire.send(post(b"", "Connection: Upgrade", "Upgrade: h2c", length=len(hidden)))
        wire.send(hidden)
        wire.reply().assert_problem(400, "bad_request")
        wire.send(get("/health", "X-Request-Id: open", "Connection: close"))
        assert b"hidden" not in wire.rest()


def chunked(after: bytes, *headers: str) -> bytes:
    """A submission in chunks, and what stands behind the last of them."""
    fields = [
        "Host: localhost",
        "Content-Type: application/json",
        "Prefer: respond-async",
        "Transfer-Encoding: chunked",
        *headers,
    ]
    return "\r\n".join(["POST /analyze HTTP/1.1", *fields, "", ""]).encode() + b'd\r\n{"query":"x"}\r\n0\r\n' + after


def test_what_stands_behind_a_body_is_no_header(patient: Live) -> None:
    """Whoever stands before this server and sets the org looks at headers; nobody says another one after the body."""
    with RawConnection(patient.url) as wire:
        wire.send(chunked(b"X-Org-Id: other\r\nX-Request-Id: late\r\n\r\n"))
        reply = wire.reply()
        assert reply.status == 202
        assert reply.headers["x-request-id"] != "late"
        assert b'"org_id":"default-org"' in reply.body
        wire.send(get())
        assert wire.reply().status == 200


@pytest.mark.parametrize("start", [b"0\r\nX-Endless: ", b"0\r\nX-", b"5;x="])
def test_what_stands_around_a_body_has_bounds(patient: Live, start: bytes) -> None:
    """A field behind the body, or a word behind the size of a chunk, is not collected for as long as it comes."""
    with RawConnection(patient.url) as wire:
        wire.send(chunked(b"")[: -len(b"0\r\n")] + start)
        for _ in range(40):
            wire.send(b"x" * 10_000)
        wire.reply().assert_problem(431, "head_too_large")
        assert wire.closed()


@pytest.mark.parametrize("late", [b"\r\n", b"x" * 50], ids=["empty line", "rest of a body"])
def test_what_begins_no_request_does_not_keep_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bytes
) -> None:
    """Only a request keeps it: an empty line after an answer, or the rest of a body that nobody read, is none."""
    monkeypatch.setattr("langlauf.server.connection_limit.KEEP_ALIVE_SECONDS", 1)
    with live(tmp_path) as server, RawConnection(server.url) as wire:
        wire.send(get("/health", "Content-Length: 50") if late.startswith(b"x") else get())
        assert wire.reply().status == 200
        wire.send(late)
        assert wire.closed()


@pytest.mark.parametrize(("version", "connection"), [("1.0", "upgrade"), ("1.1", "close, upgrade")])
def test_an_upgrade_that_is_not_taken_changes_nothing_else(patient: Live, version: str, connection: str) -> None:
    """The version is the client's, and a connection that was to be closed after it is."""
    hidden = get("/health", "X-Request-Id: hidden")
    asked = get("/health", f"Connection: {connection}", "Upgrade: h2c")
    with RawConnection(patient.url) as wire:
        wire.send(asked.replace(b"HTTP/1.1", f"HTTP/{version}".encode()) + hidden)
        reply = wire.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert wire.closed()


def test_a_client_of_the_old_version_is_not_told_to_go_on(patient: Live) -> None:
    """HTTP/1.0 knows one answer to a request."""
    with RawConnection(patient.url) as wire:
        wire.send(post(b'{"query":"x"}', "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert wire.reply().status == 202


@pytest.mark.parametrize("name", ["X-Org-Id", "X-Tenant-Id"])
def test_blanks_around_a_value_are_no_part_of_it(patient: Live, name: str) -> None:
    """Of an org, a user, an id of the request, a key of idempotency, a preference: all mean the same with them."""
    fields = [f"{name}: \t acme \t ", "X-User-Id: ada ", "X-Request-Id: mine\t", "Idempotency-Key: once ", "Expect: "]
    with RawConnection(patient.url) as wire:
        wire.send(post(b'{"query":"x"}', *fields))
        reply = wire.reply()
        assert reply.status == 202, reply
        assert reply.headers["x-request-id"] == "mine"
        job = json.loads(reply.body)["job"]
        assert (job["org_id"], job["requested_by_user_id"]) == ("acme", "ada")


def large_answers(server: Live) -> bytes:
    """Requests for more than fits into the buffers between a server and a client that does not read."""
    job = server.wait(server.submit("failing", how="large")["job_id"])
    return get(f"/analyze/results/{job['result_id']}") * 5


def test_a_client_that_never_reads_is_cut_off(quick: Live) -> None:
    """Its answers fill the buffers between, and then nothing waits for it; the descriptor comes back."""
    requests = large_answers(quick)
    before = descriptors()
    with RawConnection(quick.url, receive_buffer=4_096) as wire:
        wire.send(get())
        assert wire.reply().status == 200
        assert _is_connected(quick, wire)
        began = time.monotonic()
        wire.send(requests)
        eventually(lambda: not _is_connected(quick, wire))
        assert time.monotonic() - began > WRITE / 2
        _until_descriptors(before + 1)  # the client's own end


def _is_connected(server: Live, wire: RawConnection) -> bool:
    """Whether the server still has the connection."""
    peers = [one.transport.get_extra_info("peername") for one in list(server.server.connection_limit.connections)]
    return wire.socket.getsockname() in peers


def _sent_until_cut_off(wire: RawConnection, data: bytes, *, seconds: float) -> int:
    """Sends on, whether it is read or not; how many bytes it was when the server ended the connection."""
    sent, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            sent += wire.socket.send(data)
        except TimeoutError:
            continue
        except ConnectionError:
            return sent
    raise AssertionError(f"the server still listens after {sent:,} bytes")


def _until_descriptors(level: int) -> None:
    eventually(lambda: descriptors() <= level)


def test_hostile_connections_leave_nothing_behind(quick: Live) -> None:
    """The descriptors are those of before."""
    quick.http.get("/health")
    before = descriptors()
    for data in UNREADABLE.values():
        with RawConnection(quick.url) as wire:
            wire.send(data)
            wire.reply()
    wires = [RawConnection(quick.url) for _ in range(50)]
    for number, wire in enumerate(wires):
        wire.send((b"", b"GET /", post(b"{", length=100))[number % 3])
    for wire in wires:
        wire.rest()
        wire.socket.close()
    _until_descriptors(before)


def test_idle_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    """At the limit, whoever has been silent the longest is closed, and the next client is served."""
    with live(tmp_path, LANGLAUF_MAX_CONNECTIONS="8") as server:
        silent = [RawConnection(server.url) for _ in range(8)]
        eventually(lambda: len(server.server.connection_limit.idle) == 8)
        with RawConnection(server.url) as wire:
            wire.send(get("/analyze/jobs"))
            assert wire.reply().status == 200
        assert silent[0].closed()
        for wire in silent:
            wire.socket.close()


def test_one_that_makes_room_is_gone_although_it_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of its answer is still on its way: nobody waits for that longer than for any other client."""
    idle, become_idle = Semaphore(0), HttpConnection._become_idle
    with live(tmp_path, LANGLAUF_MAX_CONNECTIONS="2", LANGLAUF_LIMITS="write_seconds=3") as server:
        job = server.wait(server.submit("echo", query="x" * 20_000)["job_id"])
        server.http.close()
        with RawConnection(server.url, receive_buffer=4_096) as wire:
            wire.send(get())
            assert wire.reply().status == 200
            eventually(lambda: len(server.server.connection_limit.connections) == 1)
            [connection] = server.server.connection_limit.connections
            monkeypatch.setattr(
                HttpConnection, "_become_idle", lambda one: (become_idle(one), one.loop.call_soon(idle.release))
            )
            unread = 0
            while not unread:  # each answer is complete before the next is asked for, so that the connection is idle
                wire.send(get(f"/analyze/results/{job['result_id']}"))
                assert idle.acquire(timeout=60)
                unread = connection.transport.get_write_buffer_size()
            eventually(lambda: len(server.server.connection_limit.idle) == 1)  # only an idle one makes room
            assert unread < 2**16
            [end] = [
                _open_as(one.transport.get_extra_info("socket").fileno())
                for one in server.server.connection_limit.connections
                if one.transport.get_write_buffer_size()
            ]
            others = [RawConnection(server.url) for _ in range(3)]
            others[-1].send(get())
            assert others[-1].reply().status == 200
            eventually(lambda: end not in _all_open())
            for other in others:
                other.socket.close()


def _open_as(descriptor: int) -> str:
    """What a descriptor of this process stands for, by a name that no other one gets."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _all_open() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - of this process, and with it of the server
        with suppress(FileNotFoundError):
            found.add(_open_as(int(name)))
    return found


def test_with_all_connections_at_work_health_is_still_answered(tmp_path: Path) -> None:
    """Whoever comes then gets 503 with Retry-After; /health and /ready are answered."""
    with live(tmp_path, LANGLAUF_MAX_CONNECTIONS="8") as server:
        busy = [RawConnection(server.url) for _ in range(8)]
        for wire in busy:
            wire.send(post(b"{", length=100))
        for path in ("/health", "/ready", "/health?x"):
            with RawConnection(server.url) as wire:
                wire.send(get(path))
                reply = wire.reply()
                assert (reply.status, reply.headers["connection"]) == (200, "close")
        with RawConnection(server.url) as wire:
            wire.send(get("/analyze/jobs"))
            reply = wire.reply()
            reply.assert_problem(503, "unavailable")
            assert int(reply.headers["retry-after"]) > 0
        more = [RawConnection(server.url) for _ in range(RESERVE + 4)]
        more[0].reply().assert_problem(503, "unavailable")
        more[-1].send(get())
        assert more[-1].reply().status == 200
        for wire in [*busy, *more]:
            wire.socket.close()
        assert_problem(server.http.post("/analyze", json={}), 400, "bad_request")


def test_a_stop_does_not_wait_for_a_body(tmp_path: Path) -> None:
    """Whoever has not sent all of a request hears that the server stops; the stop is quiet, and waits for none."""
    with live(tmp_path, LANGLAUF_LIMITS="head_seconds=600; body_seconds=600") as server:
        wires = [RawConnection(server.url) for _ in range(3)]
        for wire, data in zip(wires, (b"", b"GET /", post(b"{", length=100)), strict=True):
            wire.send(data)
        server.http.get("/health")
    assert wires[0].closed()
    for wire in wires[1:]:
        wire.reply().assert_problem(503, "unavailable")
    for wire in wires:
        wire.socket.close()


def test_a_stop_cuts_off_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets a part of its answer and the end of the connection; the request never has to be cancelled."""
    monkeypatch.setattr("langlauf.server.program._CLOSE_SECONDS", 0.3)
    with live(tmp_path, LANGLAUF_MAX_BODY=str(2 * BEYOND_BUFFERS)) as server:
        job = server.wait(server.submit("echo", query="x" * BEYOND_BUFFERS)["job_id"])
        wire = RawConnection(server.url, receive_buffer=4_096)
        wire.send(get(f"/analyze/results/{job['result_id']}") * 2)
        eventually(lambda: _waits_for_a_reader(server))
    with wire:
        assert 0 < len(wire.rest()) < BEYOND_BUFFERS
    assert "cancelled" not in caplog.text


def _waits_for_a_reader(server: Live) -> bool:
    return any(one.writable is not None for one in server.server.connection_limit.connections.copy())


@pytest.mark.parametrize(("sent", "status"), [(b"{", 408), (b"x" * 100, 413)])
def test_in_another_server_a_body_has_its_bounds_all_the_same(sent: bytes, status: int) -> None:
    """The application itself does not wait for the rest of a body, nor read more of it than it takes."""
    limits = {"LANGLAUF_STORE": "memory://", "LANGLAUF_LIMITS": "body_seconds=0.1", "LANGLAUF_MAX_BODY": "50"}
    told: list[Message] = []

    async def main() -> None:
        app = Langlauf(settings=load_settings(limits))
        parts: asyncio.Queue[Message] = asyncio.Queue()
        parts.put_nowait({"type": "http.request", "body": sent, "more_body": True})

        async def send(message: Message) -> None:
            told.append(message)

        scope: dict[str, object] = {
            "type": "http",
            "method": "POST",
            "path": "/analyze",
            "raw_path": b"/analyze",
            "query_string": b"",
        }
        scope |= {"http_version": "1.1", "headers": [], "client": None, "root_path": ""}
        async with app.lifespan():
            await app.asgi()(scope, parts.get, send)

    asyncio.run(main())
    assert told[0]["status"] == status
    assert (b"connection", b"close") in told[0]["headers"]
