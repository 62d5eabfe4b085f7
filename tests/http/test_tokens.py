"""Tokens for one job: that job can be read, and nothing else can be done."""

import base64
from typing import Any

import httpx2
import pytest

from langlauf.api.operations import OPERATIONS, Operation
from langlauf.clock import new_id
from langlauf.domain.access import GRANTABLE_SCOPES, Scope
from tests.http.keyed_server import KeyedServer, call, path_of, run_job, stable, until
from tests.http.test_errors import assert_problem
from tests.support.keys import OPERATOR, bearer, make_key, revoke_key
from tests.support.live import GATES, Live

GUARDED = [one for one in OPERATIONS if one.scope is not None]
ONE_JOB = [one for one in GUARDED if one.one_job and one.method == "get"]
OTHERS = [one for one in GUARDED if one not in ONE_JOB]


def make_token(closed: KeyedServer, job_id: str, key: str | None = None, **body: Any) -> str:
    """A token for a job."""
    made = closed.live.http.post(f"/analyze/jobs/{job_id}/token", json=body, headers=bearer(key or closed.admin))
    assert made.status_code == 200, made.text
    token: str = made.json()["token"]
    return token


@pytest.fixture(scope="module")
def token(closed: KeyedServer, job: dict[str, Any]) -> str:
    """A token for the job of this module."""
    return make_token(closed, job["job_id"])


def test_the_operations_of_a_token_are_a_short_list() -> None:
    """Adding one is a decision."""
    assert {one.name for one in ONE_JOB} == {"jobStatus", "jobEvents", "jobResults", "result", "resultViews"}
    assert all(one.scope is Scope.READ for one in ONE_JOB)
    assert {one.name for one in GUARDED if one.one_job and one not in ONE_JOB} == {"cancelJob"}


def test_a_token_says_what_it_is(closed: KeyedServer, job: dict[str, Any]) -> None:
    """An hour unless said; it is nobody's to keep."""
    answer = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", headers=bearer(closed.admin))
    made = answer.json()
    assert (answer.status_code, made["token_type"], made["job_id"]) == (200, "Bearer", job["job_id"])
    assert set(made) == {"ok", "request_id", "token", "token_type", "expires_at", "job_id"}
    assert answer.headers["cache-control"] == "no-store"
    assert len(made["token"]) < 1_024


@pytest.mark.parametrize("operation", ONE_JOB, ids=lambda one: one.name)
def test_its_job_can_be_read(closed: KeyedServer, job: dict[str, Any], token: str, operation: Operation) -> None:
    """By header or in the address, which then is nobody's to keep; with the same body as for a key."""
    same = {"X-Request-Id": "same"}
    by_key = call(closed.live, operation, job, bearer(closed.admin, **same))
    by_header = call(closed.live, operation, job, bearer(token, **same))
    in_address = closed.live.http.get(path_of(operation, job), params={"access_token": token}, headers=same)
    assert (by_key.status_code, by_header.status_code, in_address.status_code) == (200, 200, 200)
    assert by_key.content == by_header.content == in_address.content
    assert in_address.headers["cache-control"] == "no-store"
    assert in_address.headers["referrer-policy"] == "no-referrer"
    assert in_address.headers["x-robots-tag"] == "noindex"
    assert token not in in_address.text


@pytest.mark.parametrize("operation", ONE_JOB, ids=lambda one: one.name)
def test_no_other_job_exists(closed: KeyedServer, token: str, operation: Operation) -> None:
    """Of its own org or of another, there or not: one answer, with the wait and the tag of one that is there too."""
    neighbour, foreign = (
        run_job(closed.live, bearer(key)) for key in (closed.admin, make_key(closed.store, "org-b").text)
    )
    unknown = {"job_id": new_id(), "result_id": new_id()}
    wishes: list[dict[str, Any]] = [{}, {"headers": {"If-None-Match": "*"}}]
    if operation.name == "jobStatus":
        wishes.append({"params": {"wait": "1"}})
    for wish in wishes:
        headers = bearer(token, **{"X-Request-Id": "same", **wish.get("headers", {})})
        answers = [
            closed.live.http.get(path_of(operation, one), params=wish.get("params"), headers=headers)
            for one in (unknown, neighbour, foreign)
        ]
        for answer in answers:
            assert_problem(answer, 404, "not_found")
            assert answer.content == answers[0].content
            assert stable(answer) == stable(answers[0])


@pytest.mark.parametrize("operation", OTHERS, ids=lambda one: one.name)
def test_nothing_else_can_be_done(closed: KeyedServer, job: dict[str, Any], token: str, operation: Operation) -> None:
    """403 by header; in the address it is not even looked at."""
    assert_problem(call(closed.live, operation, job, bearer(token)), 403, "forbidden")
    path = path_of(operation, job)
    in_address = closed.live.http.request(operation.method, path, params={"access_token": token})
    assert_problem(in_address, 401, "unauthorized")


def test_a_token_does_not_leave_its_org(closed: KeyedServer, job: dict[str, Any], token: str) -> None:
    """Naming another org is 403, as with a key."""
    path = f"/analyze/jobs/{job['job_id']}"
    assert_problem(closed.live.http.get(path, headers=bearer(token, **{"X-Org-Id": "org-b"})), 403, "forbidden")
    assert closed.live.http.get(path, headers=bearer(token, **{"X-Org-Id": "org-a"})).status_code == 200


def test_every_letter_counts(closed: KeyedServer, job: dict[str, Any], token: str) -> None:
    """Whichever letter is another one, it is no token any more; nor is a shorter or a longer one."""
    path = f"/analyze/jobs/{job['job_id']}"
    nothing = closed.live.http.get(path, headers={"X-Request-Id": "same"})
    changed = [token[:n] + ("A" if token[n] != "A" else "B") + token[n + 1 :] for n in range(len(token))]
    for text in (*changed, token[:-1], token + "A", token + "=", token + ".", token * 20, "llt_", "llt_.", "llt_e30."):
        answer = closed.live.http.get(path, params={"access_token": text}, headers={"X-Request-Id": "same"})
        assert (answer.status_code, answer.content) == (401, nothing.content), text


def test_what_a_token_says_cannot_be_changed(closed: KeyedServer, token: str) -> None:
    """Another job under the same signature is no token."""
    other = run_job(closed.live, bearer(closed.admin))
    said, _, signature = token.removeprefix("llt_").partition(".")
    text = base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)).decode()
    for old, new in ((text.split('"')[5], other["job_id"]), ("org-a", "org-b"), ("]", "0]")):
        forged = base64.urlsafe_b64encode(text.replace(old, new).encode()).decode().rstrip("=")
        for kept in (signature, "", "A" * 43):
            shown = bearer(f"llt_{forged}.{kept}")
            answer = closed.live.http.get(f"/analyze/jobs/{other['job_id']}", headers=shown)
            assert_problem(answer, 401, "unauthorized")


def test_a_token_in_the_address_is_given_once_and_alone(closed: KeyedServer, job: dict[str, Any], token: str) -> None:
    """Twice, or with another one in a header: 400. A key is none."""
    path = f"/analyze/jobs/{job['job_id']}"
    twice = closed.live.http.get(f"{path}?access_token={token}&access_token={token}")
    assert_problem(twice, 400, "bad_request")
    beside = closed.live.http.get(f"{path}?access_token={token}", headers=bearer(closed.admin))
    assert_problem(beside, 400, "bad_request")
    for key in (closed.admin, OPERATOR):
        assert_problem(closed.live.http.get(f"{path}?access_token={key}"), 401, "unauthorized")
    spelled = closed.live.http.get(f"{path}?wait=0&%61ccess_token={token}&")
    assert spelled.status_code == 200


def test_a_token_ends_by_itself(closed: KeyedServer, job: dict[str, Any]) -> None:
    """At its time, without anybody doing anything."""
    short = make_token(closed, job["job_id"], expires_in=1)
    path = f"/analyze/jobs/{job['job_id']}"
    assert closed.live.http.get(path, headers=bearer(short)).status_code == 200
    until(lambda: closed.live.http.get(path, headers=bearer(short)).status_code == 401)


def test_a_token_ends_with_its_key(closed: KeyedServer, job: dict[str, Any]) -> None:
    """Within the time promised; also for whoever waits with it."""
    key = make_key(closed.store, "org-a")
    token = make_token(closed, job["job_id"], key.text)
    path = f"/analyze/jobs/{job['job_id']}"
    assert closed.live.http.get(path, headers=bearer(token)).status_code == 200
    gate = new_id()
    body = {"analysis": "gated", "input": {"gate": gate}}
    running = closed.live.http.post("/analyze", json=body, headers=bearer(key.text, Prefer="respond-async"))
    job_id = running.json()["job"]["job_id"]
    GATES.wait_until_reached(gate)
    waiting = make_token(closed, job_id, key.text)
    etag = closed.live.http.get(f"/analyze/jobs/{job_id}", headers=bearer(waiting)).headers["etag"]
    revoke_key(closed.store, key.key.key_id)
    known = bearer(waiting, **{"If-None-Match": etag})
    answer = closed.live.http.get(f"/analyze/jobs/{job_id}?wait=30", headers=known, timeout=25)
    GATES.open(gate)
    assert_problem(answer, 401, "unauthorized")
    assert_problem(closed.live.http.get(path, headers=bearer(token)), 401, "unauthorized")


def test_a_token_does_not_outlive_a_key_that_expires(closed: KeyedServer, job: dict[str, Any]) -> None:
    """Its end is the earlier of the two."""
    made = closed.live.http.post(
        "/analyze/keys", json={"scopes": ["read"], "expires_in": 60}, headers=bearer(closed.admin)
    ).json()
    path = f"/analyze/jobs/{job['job_id']}/token"
    token = closed.live.http.post(path, json={"expires_in": "2h"}, headers=bearer(made["key"])).json()
    assert token["expires_at"] == made["expires_at"]


def test_a_token_of_the_operator_is_for_the_org_it_was_made_in(closed: KeyedServer, job: dict[str, Any]) -> None:
    """It works, and it cannot be taken to another org."""
    headers = bearer(OPERATOR, **{"X-Org-Id": "org-a"})
    made = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", headers=headers)
    token = made.json()["token"]
    path = f"/analyze/jobs/{job['job_id']}"
    assert closed.live.http.get(path, headers=bearer(token)).status_code == 200
    assert_problem(closed.live.http.get(path, headers=bearer(token, **{"X-Org-Id": "org-b"})), 403, "forbidden")
    assert_problem(closed.live.http.get("/metrics", headers=bearer(token)), 403, "forbidden")


@pytest.mark.parametrize("expires_in", [0, -1, "soon", "25h", 86_401, True, [], {}])
def test_a_time_that_cannot_be_is_refused(closed: KeyedServer, job: dict[str, Any], expires_in: Any) -> None:
    """400, naming it."""
    answer = closed.live.http.post(
        f"/analyze/jobs/{job['job_id']}/token", json={"expires_in": expires_in}, headers=bearer(closed.admin)
    )
    assert assert_problem(answer, 400, "bad_request")["field"] == "expires_in"


def test_nobody_makes_a_token_for_what_they_do_not_see(closed: KeyedServer, job: dict[str, Any], token: str) -> None:
    """Another org's job is not there; a key that cannot read, and a token, are refused."""

    def make(key: str, job_id: str) -> httpx2.Response:
        return closed.live.http.post(f"/analyze/jobs/{job_id}/token", headers=bearer(key))

    assert_problem(make(make_key(closed.store, "org-b").text, job["job_id"]), 404, "not_found")
    assert_problem(make(closed.admin, new_id()), 404, "not_found")
    blind = make_key(closed.store, "org-a", *(GRANTABLE_SCOPES - {Scope.READ}))
    assert_problem(make(blind.text, job["job_id"]), 403, "forbidden")
    assert_problem(make(token, job["job_id"]), 403, "forbidden")


def test_where_nobody_is_asked_for_a_key_a_token_still_binds(server: Live) -> None:
    """What works with it here works with it elsewhere, and what does not, does not."""
    mine, other = run_job(server, {}), run_job(server, {})
    token = server.http.post(f"/analyze/jobs/{mine['job_id']}/token").json()["token"]
    assert server.http.get(f"/analyze/jobs/{mine['job_id']}", headers=bearer(token)).status_code == 200
    assert_problem(server.http.get(f"/analyze/jobs/{other['job_id']}", headers=bearer(token)), 404, "not_found")
    assert_problem(server.http.get("/analyze/jobs", headers=bearer(token)), 403, "forbidden")


def test_a_token_can_be_made_to_stop_its_job(closed: KeyedServer) -> None:
    """That job alone, by header alone, and only where it was asked for."""
    gates = [new_id(), new_id()]
    own, other = (_gated(closed, gate) for gate in gates)
    reads, stops = make_token(closed, own), make_token(closed, own, cancel=True)
    http = closed.live.http
    assert_problem(http.post(f"/analyze/jobs/{own}/cancel", headers=bearer(reads)), 403, "forbidden")
    in_address = http.post(f"/analyze/jobs/{own}/cancel", params={"access_token": stops})
    assert_problem(in_address, 401, "unauthorized")
    unknown = http.post(f"/analyze/jobs/{new_id()}/cancel", headers=bearer(stops, **{"X-Request-Id": "same"}))
    foreign = http.post(f"/analyze/jobs/{other}/cancel", headers=bearer(stops, **{"X-Request-Id": "same"}))
    assert_problem(foreign, 404, "not_found")
    assert (foreign.content, stable(foreign)) == (unknown.content, stable(unknown))
    assert http.post(f"/analyze/jobs/{own}/cancel", headers=bearer(stops)).status_code in (200, 202)
    assert_problem(http.post(f"/analyze/jobs/{own}/retry", headers=bearer(stops)), 403, "forbidden")
    until(lambda: _status(closed, own) == "canceled")
    assert _status(closed, other) == "running"
    for gate in gates:
        GATES.open(gate)


def test_whoever_may_not_cancel_makes_no_token_that_may(closed: KeyedServer) -> None:
    """403 at once; and a token is never stronger than the key behind it."""
    job = run_job(closed.live, bearer(closed.admin))
    reader = make_key(closed.store, "org-a", Scope.READ).text
    answer = closed.live.http.post(
        f"/analyze/jobs/{job['job_id']}/token", json={"cancel": True}, headers=bearer(reader)
    )
    assert_problem(answer, 403, "forbidden")


def _gated(closed: KeyedServer, gate: str) -> str:
    wish = bearer(closed.admin, Prefer="respond-async")
    answer = closed.live.http.post("/analyze", json={"analysis": "gated", "gate": gate}, headers=wish)
    GATES.wait_until_reached(gate)
    job_id: str = answer.json()["job"]["job_id"]
    return job_id


def _status(closed: KeyedServer, job_id: str) -> str:
    job = closed.live.http.get(f"/analyze/jobs/{job_id}", headers=bearer(closed.admin)).json()["job"]
    status: str = job["status"]
    return status
