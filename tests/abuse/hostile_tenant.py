"""`python -m tests.abuse.hostile_tenant SECONDS SCALE`: one org with every means at once, in a process of its own.

It prints one JSON line with the ports of its receivers, waits for the address of the server on its standard input, does
its worst for so many seconds, and prints another line: how often each means was used, and what it was answered.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import uvloop

from tests.abuse.flood import read_answer
from tests.support.receiver import Handler, Receiver, receiving
from tests.support.smtp_server import SmtpServer, smtp_server

ORG = "hostile"
_PAUSE_AFTER_REFUSAL = 0.05
_LARGEST_RESULT = 64 * 1_048_576
_HEADERS = {"X-Org-Id": ORG}
#: The attack gives way to the server and to the measuring clients, as a remote machine would: what is slow is then the
#: server and not this.
_NICE = 10
_HANGING_HOOK = "/hang"
_TINY_TIMEOUT = 0.01
_LANES = 10
_MOST_RETRIES = 100
#: Before its own jobs that are only there to be in the way.
_URGENT = {"priority_class": "expedite"}
_URGENTLY = {"async_mode": _URGENT}


class Measure(NamedTuple):
    """How much of each means there is."""

    sync_connections: int
    streams: int
    retried_jobs: int
    cyclic_jobs: int
    large_jobs: int
    #: more than one job may have
    reports: int
    told_jobs: int


def measure(scale: float) -> Measure:
    """The full measure is 1."""

    def times(full: int, least: int) -> int:
        return max(least, round(full * scale))

    return Measure(
        sync_connections=times(200, 20),
        streams=times(1_500, 50),
        retried_jobs=times(2_000, 50),
        cyclic_jobs=times(200, 5),
        large_jobs=times(10, 1),
        reports=times(120_000, 2_000),
        told_jobs=times(3_000, 50),
    )


class Tenant:
    """All means of one org against one server."""

    def __init__(self, url: str, seconds: float, much: Measure, hook: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._until = time.monotonic() + seconds
        self._much = much
        self._hook = hook
        self._http = httpx2.AsyncClient(
            base_url=url, headers=_HEADERS, timeout=60, trust_env=False, limits=httpx2.Limits(max_connections=100)
        )
        self.used: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        #: what a means ran into
        self.troubles: list[str] = []
        self.events = 0

    async def attack(self) -> None:
        """Everything at once, until the time is over."""
        means: tuple[Callable[[], Awaitable[None]], ...] = (
            self._events,
            self._large_results,
            self._cyclic_results,
            self._streams,
            self._tiny_timeouts,
            self._messages,
        )
        floods = [self._synchronous(number) for number in range(self._much.sync_connections)]
        await asyncio.gather(*floods, *(self._tried(one) for one in means))
        await self._http.aclose()

    async def _tried(self, means: Callable[[], Awaitable[None]]) -> None:
        """A means that breaks down takes no other with it, and is told."""
        try:
            await means()
        except (httpx2.HTTPError, OSError, EOFError, KeyError, ValueError) as error:
            self.troubles.append(f"{means.__name__}: {error!r}")

    @property
    def _lasts(self) -> bool:
        return time.monotonic() < self._until

    # -- means ---------------------------------------------------------------------------------------------------------

    async def _synchronous(self, number: int) -> None:
        """Requests that hold on to the server as long as they may; every second connection asks for quick ones."""
        values = '"nap", "input": {"seconds": 3600}' if number % 2 else '"echo", "input": {"value": 1}'
        body = f'{{"analysis": {values}}}'.encode()
        head = f"POST /analyze HTTP/1.1\r\nHost: localhost\r\nX-Org-Id: {ORG}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        while self._lasts:
            try:
                reader, writer = await asyncio.open_connection(*self._address)
            except OSError:
                self.answers["no connection"] += 1
                await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
                continue
            with contextlib.suppress(OSError, EOFError):
                while self._lasts:
                    writer.write(request)
                    self.used["synchronous requests"] += 1
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + self._left + 10):
                        status, fields, _ = await read_answer(reader)
                    self.answers[f"synchronous: {status}"] += 1
                    if status in (429, 503):
                        await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
                    if b"connection: close" in fields:
                        break
            writer.transport.abort()

    @property
    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    async def _streams(self) -> None:
        """As many event streams as can be had with the token of one job; one that is refused or cut comes back."""
        job_id = await self._submitted("nap", {"seconds": 3600}, _URGENT)
        token = (await self._http.post(f"/analyze/jobs/{job_id}/token")).raise_for_status().json()["token"]
        path = f"/analyze/jobs/{job_id}/events?access_token={token}"
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
        await asyncio.gather(*(self._stream(request) for _ in range(self._much.streams)))
        await self._http.post(f"/analyze/jobs/{job_id}/cancel")

    async def _stream(self, request: bytes) -> None:
        while self._lasts:
            writer = None
            try:
                reader, writer = await asyncio.open_connection(*self._address)
                writer.write(request)
                self.used["streams by one token"] += 1
                status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
                self.answers[f"stream: {status}"] += 1
                while status == 200 and self._lasts:
                    async with asyncio.timeout(self._left + 0.01):
                        if not await reader.read(65_536):
                            break
            except (OSError, EOFError, TimeoutError):
                self.answers["stream: cut"] += 1
            finally:
                if writer is not None:
                    writer.transport.abort()
            await asyncio.sleep(10 * _PAUSE_AFTER_REFUSAL)

    async def _tiny_timeouts(self) -> None:
        """Jobs that never end in their time and are tried again as often as can be asked for."""

        async def one(_: int) -> None:
            mode = {"max_retries": _MOST_RETRIES}
            if await self._submitted("nap", {"seconds": 3600}, mode, timeout_seconds=_TINY_TIMEOUT):
                self.used["jobs with a tiny timeout and many retries"] += 1

        await self._in_lanes(one, self._much.retried_jobs)

    async def _in_lanes(self, do: Callable[[int], Awaitable[None]], times: int) -> None:
        """Does something so many times, some of it at once, as long as there is time."""
        numbers = iter(range(times))

        async def lane() -> None:
            for number in numbers:
                if not self._lasts:
                    return
                await do(number)

        await asyncio.gather(*(lane() for _ in range(_LANES)))

    async def _cyclic_results(self) -> None:
        """Every second one is asked for in the answer itself."""

        async def one(number: int) -> None:
            self.used["cyclic results"] += 1
            if number % 2:
                answer = await self._http.post("/analyze", json={"analysis": "cyclic", "options": _URGENTLY})
                self.answers[f"cyclic: {answer.status_code}"] += 1
            elif job := await self._ended(await self._submitted("cyclic", {}, _URGENT)):
                self.answers[f"cyclic: {job['error_code']}"] += 1

        await self._in_lanes(one, self._much.cyclic_jobs)

    async def _large_results(self) -> None:
        """The largest results there may be: by their link, to a reader in no hurry, and in the answer itself."""
        values = {"size": _LARGEST_RESULT - 2}
        for _ in range(self._much.large_jobs):
            if not self._lasts:
                break
            self.used["results of 64 MiB"] += 1
            job = await self._ended(await self._submitted("large", values, _URGENT))
            if job is not None:
                self.answers[f"large: {job['status']}"] += 1
                await self._read("GET", f"/analyze/results/{job['result_id']}", pause=_PAUSE_AFTER_REFUSAL)
            await self._read("POST", "/analyze", json={"analysis": "large", "input": values, "options": _URGENTLY})

    async def _read(self, method: str, path: str, *, pause: float = 0.0, **more: Any) -> None:
        async with self._http.stream(method, path, **more) as answer:
            self.answers[f"large: {answer.status_code}"] += 1
            async for part in answer.aiter_raw(1_048_576):
                self.used["bytes read of them"] += len(part)
                await asyncio.sleep(pause)

    async def _ended(self, job_id: str | None) -> dict[str, Any] | None:
        """A job at its end, where that comes in time."""
        while job_id is not None and self._lasts:
            answer = await self._http.get(f"/analyze/jobs/{job_id}", params={"wait": 5})
            job: dict[str, Any] = answer.json().get("job", {})
            if job.get("finished_at"):
                return job
            if answer.is_error:
                await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
        return None

    async def _events(self) -> None:
        """One job that reports more than its log may have, read as it goes."""
        job_id = await self._submitted("chatty", {"count": self._much.reports}, _URGENT)
        while self._lasts and job_id:
            path = f"/analyze/jobs/{job_id}/events?after={self.events}&limit=1000"
            page = (await self._http.get(path)).json().get("events", [])
            self.events = page[-1]["event_seq"] if page else self.events
            self.used["events of one job"] = self.events
            if page and page[-1]["event_type"] in ("job.completed", "job.failed", "job.canceled"):
                self.answers[f"events: {page[-1]['event_type']}"] += 1
                break
            if not page:
                await asyncio.sleep(_PAUSE_AFTER_REFUSAL)

    async def _messages(self) -> None:
        """Jobs of which mails and webhooks are to tell; half of the hooks take all the time they can get."""

        async def one(number: int) -> None:
            hook = self._hook if number % 2 else self._hook.replace("/hook", _HANGING_HOOK)
            notify = {"webhook": hook, "email": f"person-{number}@example.org"}
            if await self._submitted("echo", {"value": number}, {**_URGENT, "notify": notify}):
                self.used["jobs that tell by mail and webhook"] += 1

        await self._in_lanes(one, self._much.told_jobs)

    async def _submitted(
        self, analysis: str, values: dict[str, Any], mode: dict[str, Any] | None = None, **more: Any
    ) -> str | None:
        """The id of a new job; None where it was refused."""
        options = {"async_mode": {"requested": True, "allow_duplicate": True, **(mode or {})}}
        body = {"analysis": analysis, "input": values, "options": options, **more}
        answer = await self._http.post("/analyze", json=body)
        self.answers[f"submitted: {answer.status_code}"] += 1
        if answer.status_code != httpx2.codes.ACCEPTED:
            await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
            return None
        return str(answer.json()["job"]["job_id"])


def _hang(handler: Handler) -> None:
    """A receiver that says nothing until it is closed or hung up on."""
    handler.server.closing.wait(60)


def _found(tenant: Tenant, receiver: Receiver, office: SmtpServer) -> dict[str, Any]:
    used = {**tenant.used, "webhooks that arrived": len(receiver.requests), "mails that arrived": len(office.taken)}
    return {"used": used, "answers": tenant.answers, "events": tenant.events, "troubles": tenant.troubles}


async def _main(seconds: float, scale: float) -> None:
    with receiving() as receiver:
        receiver.manners[_HANGING_HOOK] = _hang
        async with smtp_server() as office:
            print(json.dumps({"hook": receiver.url("/hook"), "mail": office.port}), flush=True)
            url = (await asyncio.to_thread(sys.stdin.readline)).strip()
            if url:
                tenant = Tenant(url, seconds, measure(scale), receiver.url("/hook"))
                await tenant.attack()
                print(json.dumps(_found(tenant, receiver, office)), flush=True)
                # The server may be in the middle of a mail: it is ended before this is.
                await asyncio.to_thread(sys.stdin.readline)


def _give_way() -> None:
    os.nice(_NICE)
    with contextlib.suppress(OSError):  # where Linux schedules by sessions, this one has a priority of its own
        Path("/proc/self/autogroup").write_text(str(_NICE), encoding="ascii")


if __name__ == "__main__":
    seconds, scale = map(float, sys.argv[1:])
    if scale >= 1:  # times are judged; a test judges counts, and on a busy machine there would be none
        _give_way()
    uvloop.run(_main(seconds, scale))
