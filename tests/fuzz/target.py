"""What is fuzzed: a server that wants a token, with analyses of all shapes and jobs in all states."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from langlauf import Job, Langlauf, PermanentError
from langlauf.clock import new_id
from tests.support.live import GATES, Live, live

TOKEN = "token-of-the-operator"
ORG = "fuzz"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Org-Id": ORG}
_RUNNING = 4


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """An object inside an input."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    height: Annotated[int, msgspec.Meta(ge=-500, le=9_000)] = 0


def fuzz_app() -> Langlauf:
    """Small analyses with inputs of many kinds; none of them fails for a reason that is the server's."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def echo(job: Job, query: str, intelligence_mode: Literal["basic", "risk"] = "basic") -> dict[str, Any]:
        """Says it back."""
        return {"query": query, "mode": intelligence_mode, "org": job.org_id}

    @app.analysis
    async def typed(
        job: Job,
        count: int,
        ratio: float = 0.5,
        flags: list[bool] = [],  # noqa: B006 - read by msgspec, which copies it
        place: Place | None = None,
        anything: Any = None,
    ) -> dict[str, Any]:
        """Stores what it got as a partial, then returns it."""
        await job.partial({"count": count}, summary={"flags": len(flags)}, progress=50, step="half")
        return {"count": count, "ratio": ratio, "place": place and place.name, "anything": anything}

    @app.analysis(cancelable=False)
    async def picky(_: Job, word: Annotated[str, msgspec.Meta(pattern="^[a-z]{1,8}$")]) -> str:
        """Likes few words."""
        if len(word) % 2:
            raise PermanentError("that word has an odd number of letters", code="odd_word")
        return word

    return app


class Known(msgspec.Struct, frozen=True):
    """Ids that exist, by the parameter they fill."""

    ids: dict[str, list[str]]
    #: jobs that have not ended: nobody should wait for them
    going_on: frozenset[str]


@contextmanager
def target(folder: Path) -> Iterator[tuple[Live, Known]]:
    """The server with jobs that are completed, failed, canceled and running."""
    app, gate, places = fuzz_app(), new_id(), itertools.count()

    @app.analysis(duplicates=True)
    async def waiting(job: Job, partials: Annotated[int, msgspec.Meta(ge=0, le=3)] = 1, word: str = "") -> None:
        """Goes on until the run is over, for the first few who know the word: those who do it again take no slot."""
        for number in range(partials):
            await job.partial({"n": number}, progress=number * 10)
        if word == gate and next(places) < _RUNNING:
            await GATES.wait(gate)

    environment = {"API_AUTH_TOKEN": TOKEN, "LANGLAUF_SYNC_LIMIT": "5", "LANGLAUF_MAX_RUNNING": "32"}
    environment["LANGLAUF_DELIVERIES"] = "0"  # nobody is called, but for tests of endpoints that no name leads to
    with live(folder, app, LANGLAUF_SHUTDOWN_GRACE="0", **environment) as server:
        server.http.headers.update(HEADERS)
        try:
            yield server, _made(server, gate)
        finally:
            GATES.open(gate)


def _made(server: Live, gate: str) -> Known:
    hook = {"url": "https://hooks.example/fuzz", "name": "of the fuzzer"}
    endpoint = server.http.post("/analyze/webhooks", json=hook).json()["webhook"]["endpoint_id"]
    ended = [
        server.wait(server.submit("echo", ORG, query="Bern")["job_id"], ORG),
        server.wait(server.submit("typed", ORG, count=3)["job_id"], ORG),
        server.wait(server.submit("picky", ORG, word="odd")["job_id"], ORG),
    ]
    running = [server.submit("waiting", ORG, partials=number % 3, word=gate)["job_id"] for number in range(_RUNNING)]
    stopped = server.http.post(f"/analyze/jobs/{running.pop()}/cancel").json()["job"]["job_id"]
    ended.append(server.wait(stopped, ORG))
    partial = server.job(running[1], ORG)
    if partial["status"] != "partial":
        partial = server.wait(running[1], ORG, until="partial")
    results = [job["result_id"] for job in (*ended, partial) if job["result_id"]]
    told = [one["notification_id"] for one in server.http.get("/analyze/deliveries").json()["deliveries"]]
    ids = {"job_id": [job["job_id"] for job in ended] + running, "result_id": results}
    plan = {"name": "of-the-fuzzer", "analysis": "echo", "input": {"query": "Bern"}, "cron": "0 6 1 1 *"}
    server.http.post("/analyze/schedules", json=plan)
    ids |= {"endpoint_id": [endpoint], "notification_id": told, "schedule": ["of-the-fuzzer"]}
    return Known(ids, frozenset(running))
