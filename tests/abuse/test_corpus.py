"""The hostile corpus over every operation of the description: never a 5xx, one error shape, and nothing changes."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from langlauf.clock import new_id
from tests.abuse.corpus import BODIES, CURSORS, HEADER_VALUES, HEADERS, METHODS, QUERIES, RAW_IDS, TEXTS
from tests.support.live import GATES, Live, live
from tests.support.postgres_stores import migrated_database
from tests.support.raw_http import RawConnection, Reply


@contextmanager
def _database() -> Iterator[dict[str, str]]:
    with migrated_database() as url:
        yield {"LANGLAUF_STORE": url}


#: How the store of a server is named while it is there; a new kind of store is a row here.
STORES: dict[str, Callable[[], AbstractContextManager[dict[str, str]]]] = {
    "sqlite": lambda: nullcontext({}),
    "memory": lambda: nullcontext({"LANGLAUF_STORE": "memory://"}),
    "postgres": _database,
}
ORG = "org-corpus"
PAGES = ("/", "/jobs/{id}", "/results/{id}", "/problems/{id}", "/docs", "/problems", "/langlauf.css", "/{id}")


class Route(NamedTuple):
    """One operation of the description."""

    method: str
    path: str
    parameters: dict[str, list[str]]
    has_body: bool


class Target:
    """A server with some jobs in it, and raw requests to it."""

    def __init__(self, server: Live) -> None:
        self.server = server
        self.completed = server.wait(server.submit("echo", ORG, query="x")["job_id"], ORG)
        self.failed = server.wait(server.submit("failing", ORG, how="permanent")["job_id"], ORG)
        self.gate = new_id()
        self.running = server.submit("gated", ORG, gate=self.gate, partials=2)
        GATES.wait_until_reached(self.gate)
        # There is no key: with one, the server would ask for it.
        self.ids = {"job_id": self.running["job_id"], "result_id": self.completed["result_id"], "key_id": "llk_none"}
        # Nor an endpoint: the first harmless request to remove it would.
        self.ids |= {"endpoint_id": "none", "notification_id": "none", "analysis_name": "none", "schedule": "none"}
        self.routes = _routes(server.http.get("/openapi.json").json())
        self._wire: RawConnection | None = None
        self.asked = 0

    def ask(self, method: str, target: str, *headers: tuple[str, str], body: bytes | None = None) -> Reply:
        """Sends a request as it is given, over a connection that is used again while the server keeps it."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        fields = [*headers, ("X-Org-Id", ORG)] if "x-org-id" not in {n.lower() for n, _ in headers} else [*headers]
        if body is not None:
            fields.append(("Content-Length", str(len(body))))
        lines += [f"{name}: {value}" for name, value in fields]
        self.asked += 1
        wire = self._wire or RawConnection(self.server.url)
        wire.send("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        reply = wire.reply(to_head=method == "HEAD")
        self._wire = wire
        if reply.headers.get("connection") == "close" or "transfer-encoding" in reply.headers:  # the latter is a stream
            self.hang_up()
        return reply

    def hang_up(self) -> None:
        """Ends the connection."""
        if self._wire is not None:
            self._wire.socket.close()
            self._wire = None

    def picture(self) -> Any:
        """Everything that a caller can see of the org, but for what changes by looking at it."""
        http, org = self.server.http, {"X-Org-Id": ORG}
        jobs = http.get("/analyze/jobs", params={"limit": 200}, headers=org).json()["jobs"]
        seen = [{k: v for k, v in job.items() if k not in ("estimated_seconds", "phase")} for job in jobs]
        events = [http.get(f"/analyze/jobs/{job['job_id']}/events", headers=org).json()["events"] for job in jobs]
        return seen, events


def _routes(document: dict[str, Any]) -> list[Route]:
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters: dict[str, list[str]] = {"path": [], "query": [], "header": []}
            for parameter in operation.get("parameters", ()):
                parameters.setdefault(parameter["in"], []).append(parameter["name"])
            found.append(Route(method.upper(), path, parameters, "requestBody" in operation))
    return found


@pytest.fixture(scope="module", params=sorted(STORES))
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One server per kind of store."""
    folder: Path = tmp_path_factory.mktemp("corpus")
    with (
        STORES[request.param]() as store,
        live(folder, None, LANGLAUF_CORS_ORIGINS="https://ui.example", **store) as server,
    ):
        made = Target(server)
        yield made
        made.hang_up()
        GATES.open(made.gate)
        server.wait(made.running["job_id"], ORG)


@pytest.fixture(autouse=True)
def unharmed(target: Target, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test sends: the org looks as before, and the log tells of no trouble."""
    before, asked = target.picture(), target.asked
    yield
    assert target.asked > asked, "nothing was sent"
    assert target.picture() == before
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def assert_answer(reply: Reply, what: object, *, head: bool = False) -> None:
    """No fault of the server, and where it refuses, a whole problem."""
    assert 200 <= reply.status < 500, (what, reply)
    assert "x-request-id" in reply.headers, (what, reply)
    assert "x-injected" not in reply.headers
    assert "set-cookie" not in reply.headers
    if reply.status >= 400 and not head:
        error = json.loads(reply.body)["error"]
        reply.assert_problem(reply.status, error)
        assert not re.search(rb"Traceback|\.py\b|sqlite|apsw|SELECT |/usr/|/tmp/", reply.body), (what, reply)


def _filled(target: Target, route: Route, **changed: str) -> str:
    """The path of a route with ids that exist, but for those that are changed."""
    return re.sub(r"\{(\w+)\}", lambda match: changed.get(match[1], target.ids[match[1]]), route.path)


def _harmless(target: Target, route: Route, *headers: tuple[str, str], query: str = "") -> Reply:
    """Asks an operation in a way that changes nothing: where it has a body, one that is refused."""
    path = _filled(target, route) + (f"?{query}" if query else "")
    if route.has_body:
        kind = (
            () if "content-type" in {name.lower() for name, _ in headers} else (("Content-Type", "application/json"),)
        )
        return target.ask(route.method, path, *kind, *headers, body=b'{"nothing": ["like", "it"]}')
    return target.ask(route.method, path, *headers)


def test_there_is_something_to_attack(target: Target) -> None:
    """The description has the operations, and they answer."""
    assert len(target.routes) >= 14
    assert sum(route.has_body for route in target.routes) >= 3
    for route in target.routes:
        reply = _harmless(target, route)
        there = 404 if re.search(r"\{((key|endpoint|notification)_id|schedule)\}", route.path) else 200
        assert reply.status == (400 if route.has_body else there), (route, reply)


@pytest.mark.parametrize("name", BODIES)
def test_hostile_bodies_are_refused(target: Target, name: str) -> None:
    """By every operation that reads one."""
    body = BODIES[name]
    for route in target.routes:
        if route.has_body:
            fields = (("Content-Type", body.media_type), ("Prefer", "respond-async"), *body.headers)
            reply = target.ask(route.method, _filled(target, route), *fields, body=body.content)
            assert_answer(reply, (route, name))
            assert reply.status in (400, 413, 415), (route, reply)


def test_hostile_ids_find_nothing(target: Target) -> None:
    """Whatever stands for an id, as it is or encoded: 404, or 400 where it is no address at all; 415 without a body."""
    raw = [*RAW_IDS, *(quote(text, safe="") for text in TEXTS), *(quote(text, safe="/:;@!$&'()*+,=") for text in TEXTS)]
    for route in target.routes:
        for name in route.parameters["path"]:
            for text in raw:
                reply = target.ask(route.method, _filled(target, route, **{name: text}))
                assert_answer(reply, (route, text))
                if text:
                    refused = {400, 404, 405, 414} | ({415} if route.has_body else set())
                    assert reply.status in refused, (route, text, reply)


def test_hostile_queries_are_answered(target: Target) -> None:
    """Each parameter with each text, and query strings that are none."""
    for route in target.routes:
        for name in route.parameters["query"]:
            for text in (*TEXTS, *(CURSORS if name == "cursor" else ())):
                if name == "wait" and text.strip("0 +") == "1":
                    continue  # it would wait
                assert_answer(_harmless(target, route, query=f"{name}={quote(text, safe='')}"), (route, name, text))
        for text in QUERIES:
            assert_answer(_harmless(target, route, query=text.encode().decode("latin-1")), (route, text[:80]))


def test_cursors_that_no_list_gave_out_are_refused(target: Target) -> None:
    """A position that cannot be one is a 400; one that could be only says where a page starts."""
    for cursor in CURSORS:
        reply = target.ask("GET", f"/analyze/jobs?cursor={quote(cursor, safe='')}")
        assert_answer(reply, cursor)
        if reply.status == 200:
            assert all(job["org_id"] == ORG for job in json.loads(reply.body)["jobs"])


def test_hostile_headers_are_answered(target: Target) -> None:
    """Each header that an operation knows with each value, and those that no operation should heed."""
    for route in target.routes:
        for name in route.parameters["header"]:
            for text in HEADER_VALUES:
                assert_answer(_harmless(target, route, (name, text)), (route, name, text[:80]))
            assert_answer(_harmless(target, route, (name, "a"), (name, "b")), (route, name, "twice"))
        for name, text in HEADERS:
            assert_answer(_harmless(target, route, (name, text)), (route, name, text[:80]))
        many = [(f"X-Many-{number}", "y" * 20) for number in range(90)]
        assert_answer(_harmless(target, route, *many), (route, "many"))


def test_other_methods_are_refused(target: Target) -> None:
    """405 with what is allowed, on every path; a method in a header is not heeded."""
    allowed: dict[str, set[str]] = {}
    for route in target.routes:
        with_get = {"HEAD"} if route.method == "GET" else set()
        allowed.setdefault(route.path, {"OPTIONS"}).update({route.method} | with_get)
    for route in target.routes:
        for method in set(METHODS) - allowed[route.path]:
            reply = target.ask(method, _filled(target, route))
            assert_answer(reply, (method, route), head=method == "HEAD")
            if method in ("CONNECT", "PROPFIND", "PURGE", "LINK") and reply.status == 400:
                continue  # not a method that HTTP knows for such an address
            assert reply.status == 405, (method, route, reply)
            assert {word.strip() for word in reply.headers["allow"].split(",")} == allowed[route.path]
            override = target.ask("GET", _filled(target, route), ("X-HTTP-Method-Override", method))
            assert_answer(override, (method, route))


def test_pages_are_as_hard_to_break(target: Target) -> None:
    """They have another shape for people; what they may not do is the same."""
    texts = [*RAW_IDS, *(quote(text, safe="") for text in TEXTS)]
    for page in PAGES:
        for text in texts if "{id}" in page else ():
            reply = target.ask("GET", page.replace("{id}", text), ("Accept", "text/html"))
            assert 200 <= reply.status < 500, (page, text, reply)
            assert b"<script>alert" not in reply.body
        for name, text in (*HEADERS, *(("Accept-Language", value) for value in HEADER_VALUES)):
            reply = target.ask("GET", page.replace("{id}", "x"), (name, text))
            assert 200 <= reply.status < 500, (page, name, text, reply)
        for query in QUERIES:
            reply = target.ask("GET", f"{page.replace('{id}', 'x')}?{query.encode().decode('latin-1')}")
            assert 200 <= reply.status < 500, (page, query, reply)
