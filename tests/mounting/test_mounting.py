"""Beside another application: prefixes, lifespans, two applications in one process, and what happens without one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf import Langlauf
from langlauf.domain.errors import LanglaufError, RegistrationError
from langlauf.settings import load_settings
from tests.support.live import sample_app
from tests.support.uvicorn_process import uvicorn

Scene = Callable[[httpx2.AsyncClient], Awaitable[None]]
TWO = """
from starlette.applications import Starlette
from starlette.routing import Mount
from contextlib import asynccontextmanager
from langlauf import Job, Langlauf
from langlauf.settings import load_settings

one = Langlauf(settings=load_settings(store="one.db"))
two = Langlauf(settings=load_settings(store="two.db"), api_prefix="/v2")
lone = Langlauf(settings=load_settings(store="lone.db"))

@one.analysis
async def upper(job: Job, text: str) -> str:
    return text.upper()

@two.analysis
async def lower(job: Job, text: str) -> str:
    return text.lower()

@two.analysis
async def hang(job: Job) -> None:
    import asyncio
    await asyncio.Event().wait()

@asynccontextmanager
async def lifespan(_):
    async with one.lifespan(), two.lifespan():
        yield

app = Starlette(
    routes=[Mount("/one", one.asgi()), Mount("/deep/two", two.asgi()), Mount("/lone", lone.asgi())], lifespan=lifespan
)
"""


def test_two_applications_live_side_by_side(tmp_path: Path) -> None:
    """Each has its analyses, its store and its addresses; one whose lifespan nobody entered says what to do."""
    (tmp_path / "two_apps.py").write_text(TWO, "utf-8")
    with uvicorn("two_apps:app", tmp_path, LANGLAUF_SHUTDOWN_GRACE="0") as server:
        upper = server.http.post("/one/analyze", json={"text": "Bern"})
        lower = server.http.post("/deep/two/v2", json={"text": "Bern"})
        assert (upper.json()["result"], lower.json()["result"]) == ("BERN", "bern")
        assert upper.headers["content-location"].startswith("/one/analyze/jobs/")
        assert lower.headers["content-location"].startswith("/deep/two/v2/jobs/")
        assert server.http.get(f"/one/analyze/jobs/{lower.json()['job_id']}").status_code == 404
        lone = server.http.post("/lone/analyze", json={"text": "x"})
        assert (lone.status_code, lone.json()["error"]) == (503, "unavailable")
        assert int(lone.headers["retry-after"]) > 0
        assert "lifespan" not in lone.text
        assert server.says("app.lifespan()")
        assert server.says("mount_in")
        assert "lone.db" not in server.text
        hanging = server.http.post("/deep/two/v2", json={"analysis": "hang"}, headers={"Prefer": "respond-async"})
        assert _runs(server.http, hanging.headers["location"])
        server.stop()
    with uvicorn("two_apps:app", tmp_path, LANGLAUF_SHUTDOWN_GRACE="0") as server:
        kinds = [one["event_type"] for one in _events(server.http, hanging.headers["location"])]
        assert kinds[:3] == ["job.queued", "job.running", "job.released"]


def _runs(http: httpx2.Client, address: str) -> bool:
    return any(http.get(address, params={"wait": 5}).json()["job"]["status"] == "running" for _ in range(20))


def _events(http: httpx2.Client, address: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = http.get(f"{address}/events").json()["events"]
    return events


def test_a_prefix_that_a_proxy_cuts_off_is_in_every_address(tmp_path: Path) -> None:
    """uvicorn --root-path comes before the mount point; a public address replaces both."""
    with uvicorn("mounted_starlette:app", tmp_path, "--root-path", "/proxy") as server:
        done = server.http.post("/tools/analyze", json={"text": "x"})
        assert done.headers["content-location"].startswith("/proxy/tools/analyze/jobs/")
        assert server.http.get("/tools/nothing").json()["type"] == "/proxy/tools/problems/not_found"
    with uvicorn("mounted_django:app", tmp_path, "--root-path", "/proxy") as server:
        done = server.http.post("/tools/analyze", json={"text": "x"})
        assert done.headers["content-location"].startswith("/proxy/tools/analyze/jobs/")
        assert server.http.get("/tools").headers["location"] == "/proxy/tools/"
    public = {"LANGLAUF_PUBLIC_URL": "https://jobs.example/office/"}
    with uvicorn("mounted_starlette:app", tmp_path, **public) as server:
        done = server.http.post("/tools/analyze", json={"text": "x"})
        assert done.headers["content-location"].startswith("https://jobs.example/office/analyze/jobs/")
        assert server.http.get("/tools/nothing").json()["type"] == "https://jobs.example/office/problems/not_found"
        assert server.http.get("/tools/openapi.json").json()["servers"] == [{"url": "https://jobs.example/office"}]


@pytest.mark.parametrize("prefix", ["", "/", "tools", "/tools/", "//"])
def test_a_prefix_that_cannot_be_one_is_refused(prefix: str) -> None:
    """At the root, pages and API, or both applications, would share their addresses."""
    with pytest.raises(RegistrationError):
        Langlauf(api_prefix=prefix)
    with pytest.raises(RegistrationError):
        Langlauf(settings=load_settings({})).mount_in(Starlette(), prefix)


def _in_scene(folder: Path, make: Callable[[Langlauf], ASGIApp], play: Scene) -> None:
    """Runs an application by a lifespan's messages, as a server sends them, and plays a scene with its client."""
    app = sample_app(settings=load_settings({"ASYNC_JOBS_STORE_FILE": str(folder / "s.db"), "LANGLAUF_WATCHDOG": "0"}))

    async def scene() -> None:
        whole = make(app)
        async with (
            served(whole),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(whole), base_url="http://jobs.example") as client,
        ):
            await play(client)
        assert app.runtime is None

    asyncio.run(scene())


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[None]:
    """What a server does with a lifespan, without the rest of a server."""
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.ensure_future(app({"type": "lifespan", "asgi": {}, "state": {}}, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    said = await from_app.get()
    if said["type"] != "lifespan.startup.complete":
        with pytest.raises(LanglaufError):
            await life
        raise LanglaufError(said["message"])
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
        await life


def test_both_lifespans_are_entered_in_order(tmp_path: Path) -> None:
    """The outer application can submit while it starts and while it stops, and its state reaches its requests."""
    seen: list[str] = []

    def make(app: Langlauf) -> ASGIApp:
        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[dict[str, str]]:
            seen.append((await app.submit("echo", query="start")).status)
            yield {"word": "kept"}
            seen.append((await app.submit("echo", query="stop")).status)

        return app.mount_in(Starlette(routes=[Route("/", _home)], lifespan=lifespan), "/tools")

    async def play(client: httpx2.AsyncClient) -> None:
        assert (await client.get("/")).text == "outer"
        assert (await client.get("/toolshed")).status_code == 404
        assert (await client.get("/tools/ready")).status_code == 200
        assert (await client.get("/tools", params={"lang": "de"})).headers["location"] == "/tools/?lang=de"

    _in_scene(tmp_path, make, play)
    assert seen == ["queued", "queued"]


async def _home(_: Request) -> Response:
    return PlainTextResponse("outer")


def test_an_application_without_a_lifespan_is_served_all_the_same(tmp_path: Path) -> None:
    """One that raises at the first message, as Django does, and one that ends without a word."""

    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("only http")
        await PlainTextResponse("refusing")(scope, receive, send)

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await PlainTextResponse("silent")(scope, receive, send)

    for outer in (refusing, silent):

        async def play(client: httpx2.AsyncClient, name: str = outer.__name__) -> None:
            assert (await client.get("/")).text == name
            assert (await client.get("/tools/ready")).status_code == 200

        _in_scene(tmp_path, lambda app, outer=outer: app.mount_in(outer, "/tools"), play)  # type: ignore[misc]


def test_an_outer_application_that_cannot_start_stops_ours(tmp_path: Path) -> None:
    """The server hears that it failed, and nothing is left running."""

    class Broken(AbstractAsyncContextManager[None]):
        async def __aenter__(self) -> None:
            raise OSError("no database")

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError("it never started")

    async def play(_: httpx2.AsyncClient) -> None:
        raise AssertionError("it must not start")

    with pytest.raises(LanglaufError, match="no database"):
        _in_scene(tmp_path, lambda app: app.mount_in(Starlette(lifespan=lambda _: Broken()), "/tools"), play)


def test_a_lifespan_that_is_entered_twice_is_a_mistake(tmp_path: Path) -> None:
    """Two workers of one application in one process are nobody's wish."""

    async def play(_: httpx2.AsyncClient) -> None:
        raise AssertionError("it must not start")

    with pytest.raises(LanglaufError, match="runs already"):
        _in_scene(tmp_path, lambda app: app.mount_in(Starlette(lifespan=app.lifespan), "/tools"), play)


def test_what_stands_before_a_mount_keeps_its_own_scope(tmp_path: Path) -> None:
    """A middleware of the outer application finds its application in the scope after the request, not ours."""
    found: list[Any] = []

    def make(app: Langlauf) -> ASGIApp:
        outer = Starlette(routes=[Mount("/tools", app.asgi())], lifespan=app.lifespan)

        async def watching(scope: Scope, receive: Receive, send: Send) -> None:
            await outer(scope, receive, send)
            found.append(scope.get("app"))

        return watching

    async def play(client: httpx2.AsyncClient) -> None:
        assert (await client.get("/tools/health")).status_code == 200
        assert isinstance(found[-1], Starlette)

    _in_scene(tmp_path, make, play)
