"""A server that stops lets its streams go at once, and waits for nobody who does not read."""

import asyncio
import time
from pathlib import Path

import httpx2

from tests.support.event_stream import Stream
from tests.support.server import ServerProcess, serving
from tests.support.sqlite_edits import lengthen_log

#: Seconds in which a stop that waits for no client has ended on a busy machine; streams would go on for half an hour.
PROMPT = 25.0
STREAMS = 100


def _submit(server: ServerProcess) -> str:
    body = {"analysis": "hang", "options": {"async_mode": {"requested": True}}}
    answer = httpx2.post(f"{server.url}/analyze", json=body, trust_env=False, timeout=60)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"]["job_id"])


def _assert_quiet(server: ServerProcess) -> None:
    log = "".join(server.log)
    for word in ("Traceback", "Exception", "Cancel", "error", "without completing"):
        assert word not in log, log


async def _idle(server: ServerProcess, job_id: str, count: int) -> list[Stream]:
    streams = await asyncio.gather(*(Stream.open(server.port, job_id) for _ in range(count)))
    for stream in streams:
        while (await stream.next()).kind != "job.progress":
            pass
    return streams


def test_a_stop_ends_idle_streams_at_once(tmp_path: Path) -> None:
    """Exit 0, no word in the log, and each of a hundred clients gets the last chunk."""

    async def body() -> None:
        with serving(tmp_path / "store.db") as server:
            streams = await _idle(server, _submit(server), STREAMS)
            began = time.monotonic()
            assert await asyncio.to_thread(server.stop) == 0
            assert time.monotonic() - began < PROMPT
            for stream in streams:
                await stream.rest()
                assert stream.ended
                stream.cut()
            _assert_quiet(server)

    asyncio.run(body())


def test_a_stop_does_not_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    """The others have their clean end at once; the one that is stuck is cut after the seconds of a stop."""

    async def body() -> None:
        store = tmp_path / "store.db"
        with serving(store, settings={"LANGLAUF_LIMITS": "stream_heartbeat=1"}) as server:
            job_id = _submit(server)
            [reads] = await _idle(server, job_id, 1)
            stuck = await Stream.open(server.port, job_id, buffer=4_096)
            last = lengthen_log(store, job_id, 100, 100_000)
            while (await reads.next()).last_event_id != str(last):
                pass
            stopping = asyncio.create_task(asyncio.to_thread(server.stop))
            began = time.monotonic()
            await reads.rest()
            assert time.monotonic() - began < PROMPT
            assert await stopping == 0
            stuck.cut()
            reads.cut()
            _assert_quiet(server)

    asyncio.run(body())
