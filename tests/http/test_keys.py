"""Keys: what is asked for, what each may do, and that nothing else opens anything."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.api.operations import OPERATIONS, Operation
from langlauf.clock import SystemClock, new_id
from langlauf.domain.access import ALL_SCOPES, GRANTABLE_SCOPES, Scope, hash_key
from langlauf.domain.instant import after
from tests.http.keyed_server import KeyedServer, call, path_of, run_job, stable, until
from tests.http.test_errors import assert_problem
from tests.support.keys import OPERATOR, bearer, make_key, revoke_key
from tests.support.live import GATES, Live, live
from tests.support.stores import query

GUARDED = [one for one in OPERATIONS if one.scope is not None]


@pytest.fixture(scope="module")
def pairs(closed: KeyedServer) -> dict[Scope, tuple[str, str]]:
    """By scope, a key with it alone, and one with all others."""
    return {
        scope: (
            make_key(closed.store, "org-a", scope).text,
            make_key(closed.store, "org-a", *(GRANTABLE_SCOPES - {scope})).text,
        )
        for scope in sorted(GRANTABLE_SCOPES)
    }


@pytest.mark.parametrize("operation", GUARDED, ids=lambda one: one.name)
def test_the_scope_matrix_is_exact(
    closed: KeyedServer, job: dict[str, Any], operation: Operation, pairs: dict[Scope, tuple[str, str]]
) -> None:
    """With the scope it needs, and no other, an operation works; with all others it is 403."""
    assert operation.scope is not None
    for scope, (own, others) in pairs.items():
        alone = call(closed.live, operation, job, bearer(own))
        rest = call(closed.live, operation, job, bearer(others))
        if scope is operation.scope:
            assert alone.status_code not in (401, 403), alone.text
            assert_problem(rest, 403, "forbidden")
        else:
            assert_problem(alone, 403, "forbidden")
            assert (rest.status_code == 403) == (operation.scope is Scope.OPERATE)
    assert call(closed.live, operation, job, bearer(OPERATOR, **{"X-Org-Id": "org-a"})).status_code not in (401, 403)
    assert_problem(call(closed.live, operation, job, {}), 401, "unauthorized")


def test_a_missing_scope_names_a_next_step_that_leads_somewhere(closed: KeyedServer) -> None:
    """Another key where there can be one; what no key is good for says so instead."""
    key = make_key(closed.store, "org-a", Scope.SUBMIT)
    wanted = closed.live.http.get("/analyze/jobs", headers=bearer(key.text)).json()
    assert "scope read" in wanted["message"]
    assert (wanted["reason"], wanted["required_scope"]) == ("scope", "read")
    operators = closed.live.http.get("/metrics", headers=bearer(key.text)).json()["message"]
    assert "API_AUTH_TOKEN" in operators
    assert "ask for one" not in operators


def test_every_operation_has_a_scope_or_is_meant_for_everybody() -> None:
    """What needs no key is a short list that a test has to be changed for."""
    assert {one.name for one in OPERATIONS if one.scope is None} == {"health", "ready", "openapi"}
    # `debug` opens no operation; it adds stack traces to what others answer.
    assert {one.scope for one in GUARDED} == ALL_SCOPES - {Scope.DEBUG}


def test_a_crawl_without_a_key_finds_nothing(closed: KeyedServer) -> None:
    """HEAD and OPTIONS tell no more than GET does, and made-up addresses are not there."""
    job = {"job_id": new_id(), "result_id": new_id()}
    for one in GUARDED:
        path = path_of(one, job)
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"):
            assert closed.live.http.request(method, path).status_code in (401, 405), (method, path)
        methods = closed.live.http.options(path)
        assert (methods.status_code, methods.content) == (204, b"")
    for path in ("/debug", "/admin", "/analyze/keys/x", "/.env", "/analyze/token"):
        assert closed.live.http.get(path).status_code == 404


MISSHAPEN: dict[str, Callable[[str], str]] = {
    "cut off": lambda key: key[:-1],
    "one more": lambda key: key + "A",
    "first letter flipped": lambda key: key[:4] + key[4].swapcase() + key[5:] if key[4].isalpha() else key[:4] + "~",
    "all flipped": str.swapcase,
    "last letter another": lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
    "secret another": lambda key: key[:20] + ("A" if key[20] != "A" else "B") + key[21:],
    "the id alone": lambda key: key[:16],
    "no prefix": lambda key: key.removeprefix("llk_"),
    "its hash": lambda key: hash_key(key.encode()),
    "superscript digits": lambda key: key.replace(next(c for c in key if c.isdigit()), "²"),
    "10 kB": lambda key: key * 190,
    "a list": lambda key: f"{key}, {key}",
    "quoted": lambda key: f'"{key}"',
    "NUL-like": lambda key: key + "%00",
    "SQL": lambda _: "' OR 1=1 --",
    "the operator's, cut": lambda _: OPERATOR[:-1],
    "the operator's, longer": lambda _: OPERATOR + "x",
    "the operator's, flipped": lambda _: OPERATOR.upper(),
}


@pytest.mark.parametrize("how", MISSHAPEN)
def test_what_is_not_exactly_a_key_opens_nothing(closed: KeyedServer, how: str) -> None:
    """401, the same to the byte as with no key at all, in either header."""
    wrong = MISSHAPEN[how](closed.admin).encode("latin-1")
    same = [(b"X-Request-Id", b"same")]
    nothing = closed.live.http.get("/analyze/jobs", headers=same)
    assert nothing.headers["www-authenticate"] == 'Bearer realm="langlauf"'
    assert_problem(nothing, 401, "unauthorized")
    for shown in ((b"Authorization", b"Bearer " + wrong), (b"X-API-Key", wrong)):
        refused = closed.live.http.get("/analyze/jobs", headers=[*same, shown])
        assert refused.content == nothing.content
        assert stable(refused) == stable(nothing)


def test_keys_that_ended_answer_like_none(closed: KeyedServer) -> None:
    """Revoked, expired and never made: one body."""
    gone = make_key(closed.store, "org-a")
    revoke_key(closed.store, gone.key.key_id)
    late = make_key(closed.store, "org-a", expires_at=SystemClock().now() - 1)
    same = {"X-Request-Id": "same"}
    nothing = closed.live.http.get("/analyze/jobs", headers=same)
    for text in (gone.text, late.text):
        refused = closed.live.http.get("/analyze/jobs", headers=bearer(text, **same))
        assert (refused.status_code, refused.content) == (401, nothing.content)
        assert stable(refused) == stable(nothing)


def test_a_key_works_in_either_header(closed: KeyedServer) -> None:
    """As a bearer in any case, as X-API-Key, or in both; beside another scheme, the alias counts."""
    key = closed.admin
    for headers in (
        {"Authorization": f"bearer {key}"},
        {"Authorization": f"BEARER   {key}"},
        {"X-API-Key": key},
        {"Authorization": f"Bearer {key}", "X-API-Key": key},
        {"Authorization": "Basic dTpw", "X-API-Key": key},
    ):
        assert closed.live.http.get("/analyze/jobs", headers=headers).status_code == 200, headers
    for nothing in ({"Authorization": "Basic dTpw"}, {"Authorization": "Bearer"}, {"X-API-Key": ""}):
        assert_problem(closed.live.http.get("/analyze/jobs", headers=nothing), 401, "unauthorized")


def test_headers_that_disagree_are_refused(closed: KeyedServer) -> None:
    """Two keys, or one header twice: 400, whichever of them is good."""
    key = closed.admin
    for headers in (
        [("Authorization", f"Bearer {key}"), ("X-API-Key", OPERATOR)],
        [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")],
        [("X-API-Key", key), ("X-API-Key", key)],
    ):
        assert_problem(closed.live.http.get("/analyze/jobs", headers=headers), 400, "bad_request")


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "token", "x-api-key"])
def test_a_key_in_the_address_opens_nothing(closed: KeyedServer, job: dict[str, Any], name: str) -> None:
    """Alone it is no key, and beside one it is a parameter that nobody knows."""
    for one in GUARDED:
        path = path_of(one, job)
        alone = closed.live.http.request(one.method, path, params={name: closed.admin})
        assert_problem(alone, 401, "unauthorized")
        assert closed.admin not in alone.text
    beside = closed.live.http.get("/analyze/jobs", params={name: closed.admin}, headers=bearer(closed.admin))
    assert_problem(beside, 400, "bad_request")
    assert closed.admin not in beside.text


def test_the_org_is_the_keys(closed: KeyedServer) -> None:
    """Without a header, or with its own name; another org is 403 before anything is looked up."""
    other = make_key(closed.store, "org-b")
    theirs = run_job(closed.live, bearer(other.text))
    assert theirs["result"]["org"] == "org-b"
    for name in ("X-Org-Id", "X-Tenant-Id"):
        assert closed.live.http.get("/analyze/jobs", headers=bearer(other.text, **{name: "org-b"})).status_code == 200
        same = {name: "org-a", "X-Request-Id": "same"}
        refused = [
            closed.live.http.get(f"/analyze/jobs/{job_id}", headers=bearer(other.text, **same))
            for job_id in (theirs["job_id"], new_id())
        ]
        assert_problem(refused[0], 403, "forbidden")
        assert refused[0].content == refused[1].content
    foreign = closed.live.http.get(f"/analyze/jobs/{theirs['job_id']}", headers=bearer(closed.admin))
    assert_problem(foreign, 404, "not_found")
    malformed = closed.live.http.get("/analyze/jobs", headers=bearer(other.text, **{"X-Org-Id": "a b"}))
    assert_problem(malformed, 400, "bad_request")


def test_the_operator_may_name_any_org(closed: KeyedServer) -> None:
    """And is in default-org without a name."""
    for headers, org in (({"X-Org-Id": "org-z"}, "org-z"), ({}, "default-org")):
        assert run_job(closed.live, bearer(OPERATOR, **headers))["result"]["org"] == org


def test_a_job_tells_the_key_that_submitted_it(closed: KeyedServer) -> None:
    """api_key_id is the key's id; the operator's token is none."""
    key = make_key(closed.store, "org-k")
    for text, told in ((key.text, key.key.key_id), (OPERATOR, None)):
        headers = bearer(text, **{"X-Org-Id": "org-k"})
        made = run_job(closed.live, headers)
        shown = closed.live.http.get(f"/analyze/jobs/{made['job_id']}", headers=headers).json()["job"]
        assert shown["api_key_id"] == told


def test_a_revoked_key_stops_working_while_in_use(closed: KeyedServer) -> None:
    """In a server that knows it, within the time promised, although the server was told by nobody."""
    key = make_key(closed.store, "org-a")

    def status() -> int:
        return closed.live.http.get("/analyze/jobs", headers=bearer(key.text)).status_code

    until(lambda: status() == 200)
    revoke_key(closed.store, key.key.key_id)
    until(lambda: status() == 401)
    assert status() == 401


def test_a_key_expires_while_in_use(closed: KeyedServer) -> None:
    """Without anybody doing anything."""
    key = make_key(closed.store, "org-a", expires_at=after(SystemClock().now(), 5))

    def status() -> int:
        return closed.live.http.get("/analyze/jobs", headers=bearer(key.text)).status_code

    until(lambda: status() == 200)
    until(lambda: status() == 401)


def test_whoever_waits_with_a_key_is_let_go_when_it_is_revoked(closed: KeyedServer) -> None:
    """A long poll does not outlive its key."""
    key = make_key(closed.store, "org-a")
    gate = new_id()
    body = {"analysis": "gated", "input": {"gate": gate}}
    headers = bearer(key.text, Prefer="respond-async")
    job_id = closed.live.http.post("/analyze", json=body, headers=headers).json()["job"]["job_id"]
    GATES.wait_until_reached(gate)
    etag = closed.live.http.get(f"/analyze/jobs/{job_id}", headers=bearer(key.text)).headers["etag"]
    revoke_key(closed.store, key.key.key_id)
    began = time.monotonic()
    answer = closed.live.http.get(
        f"/analyze/jobs/{job_id}?wait=30", headers=bearer(key.text, **{"If-None-Match": etag})
    )
    GATES.open(gate)
    assert_problem(answer, 401, "unauthorized")
    assert time.monotonic() - began < 25, "it was answered because of the key, not at the end of its 30 seconds"


def test_the_first_key_closes_an_open_server(tmp_path: Path) -> None:
    """Within the time promised; a revoked one still counts, also after a restart."""
    with live(tmp_path) as running:
        assert running.http.get("/analyze/jobs").status_code == 200
        assert running.http.get("/analyze/jobs", headers=bearer("whatever")).status_code == 200
        key = make_key(tmp_path / "store.db", "org-a")
        until(lambda: running.http.get("/analyze/jobs").status_code == 401)
        assert running.http.get("/analyze/jobs", headers=bearer(key.text)).status_code == 200
        revoke_key(tmp_path / "store.db", key.key.key_id)
        until(lambda: running.http.get("/analyze/jobs", headers=bearer(key.text)).status_code == 401)
    with live(tmp_path) as running:
        assert running.http.get("/analyze/jobs").status_code == 401
        assert running.http.get("/health").status_code == 200


def test_when_a_key_was_used_is_kept(tmp_path: Path) -> None:
    """Not at the request, but once in a while and at the end."""
    store = tmp_path / "store.db"
    used, unused = make_key(store, "org-a"), make_key(store, "org-a")
    with live(tmp_path) as running:
        for _ in range(3):
            assert running.http.get("/analyze/jobs", headers=bearer(used.text)).status_code == 200
    times = {key_id: at for key_id, at in query(store, "SELECT key_id, last_used_at FROM api_keys")}  # noqa: C416
    assert times[unused.key.key_id] is None
    assert isinstance(times[used.key.key_id], int)


# -- keys over HTTP ----------------------------------------------------------------------------------------------------


def test_an_admin_makes_lists_and_revokes_keys(closed: KeyedServer) -> None:
    """Of the own org, with the text in one answer only and the hash in none."""
    body = {"name": "nightly", "scopes": ["read"], "expires_in": "30d"}
    made = closed.live.http.post("/analyze/keys", json=body, headers=bearer(closed.admin))
    assert made.status_code == 201, made.text
    assert made.headers["cache-control"] == "no-store"
    key = made.json()
    assert (key["name"], key["scopes"], key["org_id"], key["revoked_at"]) == ("nightly", ["read"], "org-a", None)
    assert closed.live.http.get("/analyze/jobs", headers=bearer(key["key"])).status_code == 200
    listed = closed.live.http.get("/analyze/keys", headers=bearer(closed.admin))
    shown = {one["key_id"]: one for one in listed.json()["keys"]}
    assert shown[key["key_id"]] == {name: key[name] for name in shown[key["key_id"]]}
    assert key["key"] not in listed.text
    assert hash_key(key["key"].encode()) not in made.text + listed.text
    path = f"/analyze/keys/{key['key_id']}/revoke"
    first = closed.live.http.post(path, headers=bearer(closed.admin))
    again = closed.live.http.post(path, headers=bearer(closed.admin))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["revoked_at"] == again.json()["revoked_at"] is not None
    assert closed.live.http.get("/analyze/jobs", headers=bearer(key["key"])).status_code == 401


def test_an_admin_reaches_no_other_org(closed: KeyedServer) -> None:
    """Another org's key cannot be listed or revoked; a foreign id and an unknown one are alike."""
    theirs = make_key(closed.store, "org-b", *GRANTABLE_SCOPES)
    same = {"X-Request-Id": "same"}
    foreign = closed.live.http.post(f"/analyze/keys/{theirs.key.key_id}/revoke", headers=bearer(closed.admin, **same))
    unknown = closed.live.http.post("/analyze/keys/llk_000000000000/revoke", headers=bearer(closed.admin, **same))
    assert_problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content
    listed = closed.live.http.get("/analyze/keys", headers=bearer(closed.admin)).json()["keys"]
    assert {one["org_id"] for one in listed} == {"org-a"}
    assert closed.live.http.get("/analyze/jobs", headers=bearer(theirs.text)).status_code == 200


def test_nobody_gives_more_than_they_have(closed: KeyedServer) -> None:
    """Neither scopes, nor time, nor the operator's own."""
    little = make_key(closed.store, "org-a", Scope.ADMIN, Scope.READ, expires_at=after(SystemClock().now(), 3_600))

    def make(**body: Any) -> httpx2.Response:
        return closed.live.http.post("/analyze/keys", json=body, headers=bearer(little.text))

    assert_problem(make(scopes=["read", "submit"]), 403, "forbidden")
    assert_problem(make(), 403, "forbidden")
    assert_problem(make(scopes=["read"], expires_in="2h"), 403, "forbidden")
    assert_problem(make(scopes=["operate"]), 400, "bad_request")
    made = make(scopes=["read"])
    assert (made.status_code, made.json()["expires_at"]) == (
        201,
        closed.live.http.get("/analyze/keys", headers=bearer(little.text)).json()["keys"][-2]["expires_at"],
    )


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": "read"},
        {"expires_in": 0},
        {"expires_in": -5},
        {"expires_in": "soon"},
        {"expires_in": 1e300},
        {"expires_in": True},
        {"name": "x" * 101},
        {"name": "line\nbreak"},
        {"org_id": "org-b"},
        {"key_id": "llk_aaaaaaaaaaaa"},
    ],
    ids=str,
)
def test_a_wish_that_cannot_be_is_refused(closed: KeyedServer, body: dict[str, Any]) -> None:
    """400, and no key."""
    before = len(closed.live.http.get("/analyze/keys", headers=bearer(closed.admin)).json()["keys"])
    assert_problem(closed.live.http.post("/analyze/keys", json=body, headers=bearer(closed.admin)), 400, "bad_request")
    assert len(closed.live.http.get("/analyze/keys", headers=bearer(closed.admin)).json()["keys"]) == before


def test_the_first_key_is_not_made_over_http(server: Live) -> None:
    """Where nobody is asked for a key, nobody can lock out the others."""
    refused = server.http.post("/analyze/keys", json={})
    assert_problem(refused, 403, "forbidden")
    assert "langlauf keys create" in refused.json()["message"]
    assert server.http.get("/analyze/keys").json()["keys"] == []
    assert server.http.get("/analyze/jobs").status_code == 200
