"""`LANGLAUF_ACCESS=capability`: whoever has an id may read what it names, and nothing else changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.api.operations import OPERATIONS, Operation
from langlauf.clock import new_id
from langlauf.domain.access import GRANTABLE_SCOPES
from tests.http.keyed_server import KeyedServer, call, path_of, run_job, stable
from tests.http.test_errors import assert_problem
from tests.support.keys import bearer, make_key
from tests.support.live import GATES, live

BY_ID = [one for one in OPERATIONS if one.by_id is not None]
OTHERS = [one for one in OPERATIONS if one.scope is not None and one.by_id is None]
STRANGERS: list[dict[str, str]] = [{}, {"X-Org-Id": "org-b"}, bearer("llk_wrong"), {"Authorization": "Bearer llt_a.b"}]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """A server with keys, where an id is enough to read."""
    folder = tmp_path_factory.mktemp("capability")
    admin = make_key(folder / "store.db", "org-a", *GRANTABLE_SCOPES)
    with live(folder, LANGLAUF_ACCESS="capability") as running:
        yield KeyedServer(running, folder / "store.db", admin.text)


def test_what_an_id_opens_is_a_short_list() -> None:
    """The three of the contract."""
    assert {one.name for one in BY_ID} == {"jobStatus", "jobEvents", "result"}


@pytest.mark.parametrize("operation", BY_ID, ids=lambda one: one.name)
def test_whoever_has_the_id_reads(closed: KeyedServer, job: dict[str, Any], operation: Operation) -> None:
    """Without a key, with a wrong one, from another org: as its owner does. An id that is none stays 404."""
    same = {"X-Request-Id": "same"}
    owner = call(closed.live, operation, job, bearer(closed.admin, **same))
    assert owner.status_code == 200
    strangers = [*STRANGERS, bearer(make_key(closed.store, "org-b").text)]
    for headers in strangers:
        assert call(closed.live, operation, job, {**headers, **same}).content == owner.content
    unknown = {"job_id": new_id(), "result_id": new_id()}
    answers = [call(closed.live, operation, unknown, {**headers, **same}) for headers in strangers]
    for answer in answers:
        assert_problem(answer, 404, "not_found")
        assert answer.content == answers[0].content
        assert stable(answer) == stable(answers[0])


@pytest.mark.parametrize("operation", OTHERS, ids=lambda one: one.name)
def test_everything_else_needs_its_tenant(closed: KeyedServer, job: dict[str, Any], operation: Operation) -> None:
    """401 without a key; with one of another org what is not theirs is not there."""
    assert_problem(call(closed.live, operation, job, {}), 401, "unauthorized")
    if "{job_id}" in operation.path:
        other = make_key(closed.store, "org-b", *GRANTABLE_SCOPES)
        assert_problem(call(closed.live, operation, job, bearer(other.text)), 404, "not_found")


def test_a_header_that_cannot_be_read_is_still_refused(closed: KeyedServer, job: dict[str, Any]) -> None:
    """Nobody needs an org here, but one that is named must be one."""
    answer = closed.live.http.get(path_of(BY_ID[0], job), headers={"X-Org-Id": "a b"})
    assert_problem(answer, 400, "bad_request")


def test_an_id_is_no_way_around_the_rate(tmp_path: Path) -> None:
    """Who reads by an id counts for the org that it belongs to, for a part of it, also where they name another one."""
    with live(tmp_path, LANGLAUF_ACCESS="capability", LANGLAUF_RATE_LIMIT="8/1h") as server:
        path = f"/analyze/jobs/{server.submit('echo', query='x')['job_id']}"
        left = [server.http.get(path, headers={"X-Org-Id": org}).headers["ratelimit"] for org in ("a", "b")]
        assert [told.split(";")[1] for told in left] == ["r=1", "r=0"]
        assert_problem(server.http.get(path, headers={"X-Org-Id": "c"}), 429, "rate_limited")


def test_the_document_says_that_an_id_is_enough(closed: KeyedServer) -> None:
    """Nothing is asked for where an id opens, and a key everywhere else."""
    document = closed.live.http.get("/openapi.json").json()
    described = {one["operationId"]: one for path in document["paths"].values() for one in path.values()}
    assert {} not in document["security"]
    for operation in BY_ID:
        assert {} in described[operation.name]["security"]
    assert not any({} in described[operation.name].get("security", []) for operation in OTHERS)


def test_waiting_works_without_a_key(closed: KeyedServer) -> None:
    """A long poll of somebody who only has the id goes on for as long as it may."""
    gate = new_id()
    body = {"analysis": "gated", "input": {"gate": gate, "partials": 1}}
    made = closed.live.http.post("/analyze", json=body, headers=bearer(closed.admin, Prefer="respond-async"))
    path = f"/analyze/jobs/{made.json()['job']['job_id']}"
    GATES.wait_until_reached(gate)
    etag = closed.live.http.get(path).headers["etag"]
    waited = closed.live.http.get(path, params={"wait": 2}, headers={"If-None-Match": etag})
    assert waited.status_code == 304
    GATES.open(gate)
    done = closed.live.http.get(path, params={"wait": 30}, headers={"If-None-Match": etag})
    assert done.status_code == 200


def test_without_the_setting_an_id_opens_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It is the setting that does it."""
    folder = tmp_path_factory.mktemp("tenant")
    key = make_key(folder / "store.db", "org-a")
    with live(folder) as running:
        job = run_job(running, bearer(key.text))
        for operation in BY_ID:
            assert_problem(call(running, operation, job, {}), 401, "unauthorized")
