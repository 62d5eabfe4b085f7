"""Another org's data answers exactly like data that never was, on every operation of the document."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import langlauf
from langlauf.auth.keyring import CreatedKey
from langlauf.clock import new_id
from langlauf.domain.access import GRANTABLE_SCOPES, Scope
from tests.http.foreign_requests import ForeignRequest, OwnedIds, foreign_requests, seen, unknown_ids
from tests.http.sql_recorder import recorded
from tests.support.keys import bearer, make_key
from tests.support.live import GATES, Live, live
from tests.support.postgres import fetch
from tests.support.store_kinds import StoreUnderTest, store_under_test

pytestmark = pytest.mark.both_stores
#: Makes the headers that somebody of an org sends.
HeadersFor = Callable[[Live, str], dict[str, str]]
TOKEN = "token-of-the-operator"


def _by_header(server: Live, org: str) -> dict[str, str]:
    return {"X-Org-Id": org}


def _by_token(server: Live, org: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}", "X-Org-Id": org}


def _by_key(server: Live, org: str) -> dict[str, str]:
    """A key of the org, made when it is first needed, with all that a key can be given."""
    if (server.url, org) not in _KEYS:
        _KEYS[server.url, org] = _make_key(server, org).text
    return bearer(_KEYS[server.url, org])


def _make_key(server: Live, org: str) -> CreatedKey:
    return make_key(server.app.settings.store_path, org, *GRANTABLE_SCOPES)


_KEYS: dict[tuple[str, str], str] = {}
#: The ways to be of an org, with what the server must be told for them.
ACCESS: dict[str, tuple[HeadersFor, dict[str, str]]] = {
    "open": (_by_header, {}),
    "token": (_by_token, {"API_AUTH_TOKEN": TOKEN}),
    "key": (_by_key, {}),
}


class House(msgspec.Struct, frozen=True):
    """A server with an owner who has jobs, and a stranger who has none."""

    server: Live
    bed: StoreUnderTest
    headers_for: HeadersFor
    owner: OwnedIds
    #: a job of the owner that goes on
    running: str

    @property
    def stranger(self) -> dict[str, str]:
        return self.headers_for(self.server, "stranger")

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = self.server.http.get("/openapi.json").json()
        return document

    def owners_jobs(self) -> list[Any]:
        headers = self.headers_for(self.server, self.owner.org)
        found = [
            self.server.http.get(f"/analyze/jobs/{job}", headers=headers).json()["job"]
            for job in (self.owner.job_id, self.running)
        ]
        for job in found:
            job.pop("estimated_seconds")
        return found

    def wait_for_end(self, job_id: str) -> None:
        """Wait until a job of the owner has ended."""
        headers, path = self.headers_for(self.server, self.owner.org), f"/analyze/jobs/{job_id}"
        for _ in range(20):
            if self.server.http.get(path, params={"wait": 5}, headers=headers).json()["job"]["finished_at"]:
                return
        raise AssertionError(f"{job_id} did not end")


@pytest.fixture(scope="module", params=list(ACCESS))
def house(request: pytest.FixtureRequest, store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for each way to be of an org, over each store."""
    headers_for, environment = ACCESS[request.param]
    settings = {"LANGLAUF_CORS_ORIGINS": "https://ui.example", "LANGLAUF_SHUTDOWN_GRACE": "0", **environment}
    settings["LANGLAUF_DELIVERIES"] = "0"
    gate, folder = new_id(), tmp_path_factory.mktemp("tenancy")
    with store_under_test(store_kind, folder) as bed, live(folder, LANGLAUF_STORE=bed.place, **settings) as server:
        headers = headers_for(server, "owner") | {"Prefer": "respond-async, wait=20", "Idempotency-Key": "shared-key"}
        text = f"secret-{new_id()}"
        hook = {"url": "https://hooks.example/owner", "name": text}
        endpoint = server.http.post("/analyze/webhooks", json=hook, headers=headers_for(server, "owner")).json()
        plan = {"name": f"plan-{new_id()}", "input": {"query": text}, "cron": "0 6 * * *"}
        made = server.http.post("/analyze/schedules", json=plan, headers=headers_for(server, "owner"))
        assert made.status_code == 201, made.text
        why = {"because": f"{text} is down"}
        held = server.http.post("/analyze/analyses/named/pause", json=why, headers=headers_for(server, "owner"))
        assert held.status_code == 200, held.text
        first = server.http.post("/analyze", json={"query": text}, headers=headers).json()
        headers.pop("Idempotency-Key")
        server.http.post("/analyze", json={"query": f"{text} again"}, headers=headers)
        later = {"analysis": "gated", "gate": gate, "partials": 1, "options": {"async_mode": {"requested": True}}}
        running = server.http.post("/analyze", json=later, headers=headers_for(server, "owner")).json()["job"]["job_id"]
        GATES.wait_until_reached(gate)
        status = server.http.get(f"/analyze/jobs/{first['job_id']}", headers=headers_for(server, "owner"))
        page = server.http.get("/analyze/jobs?limit=1", headers=headers_for(server, "owner")).json()
        told = server.http.get("/analyze/deliveries", headers=headers_for(server, "owner")).json()["deliveries"]
        others = {
            "key_id": new_id() if request.param == "open" else _make_key(server, "owner").key.key_id,
            "endpoint_id": endpoint["webhook"]["endpoint_id"],
            "notification_id": told[0]["notification_id"],
            "analysis_name": new_id(),
            "schedule": plan["name"],
        }
        owner = OwnedIds(
            org="owner",
            job_id=first["job_id"],
            result_id=first["result_id"],
            etag=status.headers["etag"],
            cursor=page["next_cursor"],
            key="shared-key",
            text=text,
            others=others,
        )
        try:
            yield House(server, bed, headers_for, owner, running)
        finally:
            GATES.open(gate)


def test_a_foreign_id_answers_like_an_unknown_one_everywhere(house: House) -> None:
    """Status, headers and body equal to the byte, in whatever way it is asked; and nothing happens to the owner."""
    before, count = house.owners_jobs(), 0
    for ask in foreign_requests(house.document(), house.owner):
        foreign_ids = {name: house.owner.fill(name) for name in ask.names}
        foreign = ask.send(house.server, foreign_ids, house.stranger)
        unknown = ask.send(house.server, unknown_ids(ask), house.stranger)
        assert seen(foreign) == seen(unknown), ask
        refused = 401 if "access_token" in ask.query else 404
        assert foreign.status_code in (204, 400, refused, 404, 405), ask
        assert not any(secret in foreign.text for secret in house.owner.secrets()), ask
        count += 1
    assert count > 150
    assert house.owners_jobs() == before


def test_the_ids_of_the_proof_are_real(house: House) -> None:
    """The owner gets all of it: what a stranger is refused is there."""
    headers, found = house.headers_for(house.server, house.owner.org), 0
    for ask in foreign_requests(house.document(), house.owner):
        if ask.method in ("GET", "HEAD") and not ask.query and not ask.headers and ask.path.count("{") == 1:
            response = ask.send(house.server, {name: house.owner.fill(name) for name in ask.names}, headers)
            assert response.status_code in (200, 405), ask
            found += response.status_code == 200
    assert found >= 10


def test_a_running_job_of_another_org_cannot_be_followed_or_stopped(house: House) -> None:
    """What would wait, stream, cancel or retry finds nothing, at once."""
    before = house.owners_jobs()
    running = msgspec.structs.replace(house.owner, job_id=house.running)
    for ask in foreign_requests(house.document(), running):
        if "job_id" in ask.names:
            foreign = ask.send(house.server, {**unknown_ids(ask), "job_id": house.running}, house.stranger)
            unknown = ask.send(house.server, unknown_ids(ask), house.stranger)
            assert seen(foreign) == seen(unknown), ask
    assert house.owners_jobs() == before


def test_pages_of_another_org_are_the_404_page(house: House) -> None:
    """Also for people: the page of a foreign job or result is that of one that never was."""
    for path, name in (("/jobs/{job_id}", "job_id"), ("/results/{result_id}", "result_id")):
        for query in ({}, {"lang": "de"}, {"view": "requested"}, {"refresh": "5"}):
            ask = ForeignRequest(method="GET", path=path, names=(name,), query=query)
            foreign = ask.send(house.server, {name: house.owner.fill(name)}, house.stranger)
            unknown = ask.send(house.server, unknown_ids(ask), house.stranger)
            assert foreign.status_code == 404
            assert seen(foreign) == seen(unknown)


def test_lists_and_totals_do_not_count_others(house: House) -> None:
    """Every operation without an id in its path: whatever filter or cursor is tried, nothing of the owner shows."""
    found = 0
    for path, methods in house.document()["paths"].items():
        operation = methods.get("get", {})
        if "{" in path or operation.get("x-scope") in (None, Scope.OPERATE):
            continue
        queries: list[dict[str, str]] = [{}]
        queries += [{one["name"]: house.owner.cursor} for one in operation["parameters"] if one["in"] == "query"]
        queries += [{"q": house.owner.text}, {"q": house.owner.job_id[:8]}, {"limit": "200"}]
        for query in queries:
            response = house.server.http.get(path, params=query, headers=house.stranger)
            told = response.text + str(response.headers)
            assert not any(secret in told for secret in house.owner.secrets() - {house.owner.org}), (path, query)
            if response.status_code == 200:
                body = response.json()
                rows = [row for value in body.values() if isinstance(value, list) for row in value]
                assert all(row["org_id"] == "stranger" for row in rows), (path, query)
                assert body.get("total", 0) == 0
                found += 1
    assert found >= 6


def test_a_key_or_an_input_of_another_org_tells_nothing(house: House) -> None:
    """The owner's Idempotency-Key and running input are new to anybody else: no replay, no mismatch, no duplicate."""
    org = f"stranger-{new_id()}"
    headers = house.headers_for(house.server, org) | {"Prefer": "respond-async", "Idempotency-Key": house.owner.key}
    other = house.server.http.post("/analyze", json={"query": "something else"}, headers=headers)
    assert other.status_code == 202
    assert "idempotent-replayed" not in other.headers
    assert house.owner.job_id not in other.text
    gate = new_id()
    same = {"analysis": "gated", "gate": gate, "options": {"async_mode": {"requested": True}}}
    mine = house.server.http.post("/analyze", json=same, headers=house.headers_for(house.server, house.owner.org))
    theirs = house.server.http.post("/analyze", json=same, headers=house.headers_for(house.server, org))
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.json()["job"]["job_id"] not in theirs.text
    GATES.open(gate)
    house.wait_for_end(mine.json()["job"]["job_id"])


def test_foreign_and_unknown_ids_cost_the_same_reads(house: House) -> None:
    """The same statements, in the same number and order, and none that writes: there is nothing for a clock to find."""
    before, counted = _rows_of_owner(house), 0
    with recorded(house.server) as statements:

        def about(ask: ForeignRequest, ids: dict[str, str]) -> list[str]:
            statements.clear()
            ask.send(house.server, ids, house.stranger)
            return statements.about({*ids.values(), "stranger"})

        for ask in foreign_requests(house.document(), house.owner):
            foreign = about(ask, {name: house.owner.fill(name) for name in ask.names})
            assert foreign == about(ask, unknown_ids(ask)), ask
            assert not any(sql.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")) for sql in foreign), ask
            counted += len(foreign)
    assert counted > 50
    assert _rows_of_owner(house) == before


_TABLES_OF_ORGS = """
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'org_id'
WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r' AND relname <> 'api_keys' ORDER BY 1
"""
_KEYS_OF_ORG = "SELECT (to_jsonb(key) - 'last_used_at')::text FROM langlauf.api_keys key WHERE org_id = $1 ORDER BY 1"


def _rows_of_owner(house: House) -> list[str]:
    """Every row of the owner with the transaction that wrote it, so that a change which was undone shows as well.

    Ends of leases and the last use of a key are left out, since the server itself goes on writing them. PostgreSQL
    alone: the functions that are called there do not show what they write, while on SQLite the statements do.
    """
    if house.bed.kind != "postgres":
        return []
    found: list[str] = []
    for (table,) in fetch(house.bed.place, _TABLES_OF_ORGS):
        # A heartbeat writes a running job anew, and changes nothing but the end of its lease.
        unleased = "CASE WHEN one.lease_expires_at IS NULL THEN one.xmin::text END"
        written = unleased if table == "job_rows" else "one.xmin"
        told = f"concat('{table}', {written}, to_jsonb(one) - 'lease_expires_at')"
        rows = f"SELECT {told} FROM langlauf.{table} AS one WHERE org_id = $1 ORDER BY 1"
        found += [text for (text,) in fetch(house.bed.place, rows, house.owner.org)]
    assert len(found) > 10
    return found + [text for (text,) in fetch(house.bed.place, _KEYS_OF_ORG, house.owner.org)]


SOURCES = Path(langlauf.__file__).parent
#: What may be called on `reads` without saying for whom: it holds nothing of an org.
_FOR_NOBODY = {
    "of",
    "derived_fields",
    "derived_fields_of_new",
    "phase",
    "check",
    "depth",
    "unwell",
    "read_pauses",
    "now",
}
#: What is told a caller's name itself.
_FOR_A_CALLER = {"pulse"}
#: Where the id itself is enough, by a setting, its org is looked up: in one place, from which a caller is made.
_BY_ID = {"owner"}


@pytest.mark.parametrize("room", ["api", "ui"])
def test_api_and_pages_read_only_for_a_caller(room: str) -> None:
    """Tenant data comes from `reads.of(caller)` and from nowhere else: no store, and no reads without a caller."""
    used: set[str] = set()
    by_id: list[Path] = []
    for path in sorted((SOURCES / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [getattr(node, "module", None) or "", *(name.name for name in node.names)]
                assert not any(name.startswith("langlauf.store") for name in names), path
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("store", "_store", "tenant"), f"{path}:{node.lineno}"
                if isinstance(node.value, ast.Attribute) and node.value.attr in ("reads", "_reads"):
                    used.add(node.attr)
                    by_id += [path] * (node.attr in _BY_ID)
    assert "of" in used
    assert used <= _FOR_NOBODY | _FOR_A_CALLER | _BY_ID
    assert len(by_id) == (room == "api")
