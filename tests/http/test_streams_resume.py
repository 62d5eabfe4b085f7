"""A client that comes back goes on where it was: every event once, in order, whatever cut the stream."""

import asyncio
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from langlauf.clock import new_id
from tests.support.event_stream import ServerEvent, Stream, port_of, stream_of
from tests.support.live import GATES, live
from tests.support.server import serving
from tests.support.sqlite_edits import change, lengthen_log

SEED = 20_261_116
CLIENTS = 20


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


class Restless:
    """A client that cuts its own connection after any number of bytes, and comes back with the last id it has."""

    def __init__(self, job_id: str, seed: int) -> None:
        self.job_id = job_id
        self.seen: list[ServerEvent] = []
        self.cuts = 0
        self._draw = random.Random(seed)

    async def follow(self, port: int) -> None:
        """Until the end of the log."""
        while not await self._connect(port):
            self.cuts += 1
            await asyncio.sleep(self._draw.uniform(0, 0.02))

    async def _connect(self, port: int) -> bool:
        """True at the end: a clean one with the last event, or 204."""
        last = self.seen[-1].last_event_id if self.seen else ""
        try:
            stream = await Stream.open(port, self.job_id, Last_Event_ID=last)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.05)  # between two servers
            return False
        if stream.status == 204:
            await stream.close()
            return True
        left = self._draw.choice([self._draw.randrange(1, 600), self._draw.randrange(1, 60_000)])
        try:
            async with asyncio.timeout(self._draw.uniform(0.001, 3)):
                while left > 0 and not stream.ended:
                    size = min(left, self._draw.randrange(1, 4_000))
                    await stream.piece(size)
                    left -= size
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.seen += stream.parser.events
            stream.cut()
        return stream.ended and bool(self.seen) and self.seen[-1].kind == "job.completed"


def _assert_whole(client: Restless, length: int) -> None:
    """Every event exactly once, in order."""
    assert [int(event.last_event_id) for event in client.seen] == list(range(1, length + 1))
    assert client.seen[-1].kind == "job.completed"


def test_twenty_restless_clients_see_every_event_once(tmp_path: Path, gate: str) -> None:
    """While the job writes hundreds of events they cut their connections in the middle of bytes, and come back."""

    async def body(port: int, clients: list[Restless]) -> None:
        GATES.open(gate)
        await asyncio.gather(*(client.follow(port) for client in clients))

    print(f"seed {SEED}")
    with live(tmp_path) as server:
        job_id = server.submit("gated", gate=gate, partials=300)["job_id"]
        clients = [Restless(job_id, SEED + number) for number in range(CLIENTS)]
        asyncio.run(body(port_of(server.url), clients))
        length = server.wait(job_id)["event_seq"]
    assert length > 300
    for client in clients:
        _assert_whole(client, length)
    assert sum(client.cuts for client in clients) > CLIENTS


def test_clients_come_through_a_restart_of_the_server(tmp_path: Path) -> None:
    """The log is in the store, not in the server: one that is killed and one that stops take nothing along."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"

    async def until(clients: list[Restless], count: int) -> None:
        while any(len(client.seen) < count for client in clients):  # noqa: ASYNC110 - they tell nobody
            await asyncio.sleep(0.01)

    async def body() -> tuple[list[Restless], int]:
        port = kept.getsockname()[1]
        with serving(store, port=port, settings={"LANGLAUF_LEASE_SECONDS": "1"}) as server:
            job_id = _submit(server.url, str(gate))
            clients = [Restless(job_id, SEED + number) for number in range(5)]
            following = [asyncio.create_task(client.follow(port)) for client in clients]
            await until(clients, 10)
            server.process.kill()
            await asyncio.to_thread(server.process.wait)
        with serving(store, port=port) as server:
            await asyncio.sleep(0.3)
            assert await asyncio.to_thread(server.stop) == 0
        with serving(store, port=port) as server:
            gate.touch()
            await asyncio.gather(*following)
            answer = httpx2.get(f"{server.url}/analyze/jobs/{job_id}", trust_env=False, timeout=60)
            return clients, int(answer.json()["job"]["event_seq"])

    with socket.socket() as kept:  # it does not listen: no other program gets the port between two servers
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        clients, length = asyncio.run(body())
    for client in clients:
        _assert_whole(client, length)


def _submit(url: str, gate: str) -> str:
    body = {"analysis": "steps", "input": {"count": 20, "gate": gate}}
    answer = httpx2.post(f"{url}/analyze", json=body, headers={"Prefer": "respond-async"}, trust_env=False, timeout=60)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"]["job_id"])


def test_what_another_process_writes_arrives(tmp_path: Path) -> None:
    """One server works, the other one only streams and polls; no hint crosses between them."""
    store, gate = tmp_path / "store.db", tmp_path / "gate"

    async def body(worker: str, port: int) -> None:
        job_id = _submit(worker, str(gate))
        async with (
            stream_of(port, job_id) as stream,
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http,
        ):
            while (await stream.next()).last_event_id != "42":  # queued, running, 20 steps with a partial each
                pass
            poll = asyncio.create_task(http.get(f"/analyze/jobs/{job_id}?wait=30"))
            await asyncio.sleep(0.2)
            began = time.monotonic()
            gate.touch()
            assert (await stream.rest())[-1].kind == "job.completed"
            assert (await poll).json()["job"]["status"] == "completed"
            assert time.monotonic() - began < 25, "the poll was answered at the change, not after its 30 s"

    with serving(store) as worker, serving(store, settings={"LANGLAUF_WORKERS": "0"}) as reader:
        asyncio.run(body(worker.url, reader.port))


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM jobs",),
        ("DELETE FROM job_events", "UPDATE jobs SET events_expired_at = updated_at"),
    ],
)
def test_a_log_that_goes_away_ends_its_streams(tmp_path: Path, gate: str, statements: tuple[str, ...]) -> None:
    """Cleanly, whoever took it: what is left to do is to come back and be told so."""

    async def body(port: int, job_id: str) -> None:
        async with stream_of(port, job_id) as stream:
            await stream.next()
            change(tmp_path / "store.db", *statements)
            await stream.rest()
            assert stream.ended

    with live(tmp_path, LANGLAUF_SHUTDOWN_GRACE="0", LANGLAUF_WORKERS="0") as server:
        asyncio.run(body(port_of(server.url), server.submit("gated", gate=gate)["job_id"]))


def test_a_long_log_comes_in_pages(tmp_path: Path, gate: str) -> None:
    """More events, and more bytes, than a page holds; from any number on."""

    async def body(port: int, job_id: str) -> None:
        last = lengthen_log(tmp_path / "store.db", job_id, 450, 10)
        last = lengthen_log(tmp_path / "store.db", job_id, 5, 200_000)
        for start in (0, 1, 99, 100, 101, last - 1):
            async with stream_of(port, job_id, Last_Event_ID=str(start)) as stream:
                seen = [await stream.next() for _ in range(last - start)]
                assert [int(event.last_event_id) for event in seen] == list(range(start + 1, last + 1))

    with live(tmp_path, LANGLAUF_SHUTDOWN_GRACE="0", LANGLAUF_WORKERS="0") as server:
        asyncio.run(body(port_of(server.url), server.submit("gated", gate=gate)["job_id"]))
