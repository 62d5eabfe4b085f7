"""The answer about a job that has ended is made once. Whether it is still right is looked at every time."""

from pathlib import Path
from typing import Any

import pytest

from langlauf.api.context import CachedStatus, StatusCache, StatusCacheKey
from langlauf.domain.read_models import JobFingerprint
from tests.http.keyed_server import KeyedServer
from tests.http.test_errors import assert_problem
from tests.support.keys import OPERATOR, bearer
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

_PULSE = JobFingerprint(3, result_expired=False, events_expired=False, lease_expires_at=None)


@pytest.mark.both_stores
def test_what_another_process_changes_is_seen_at_once(store_kind: str, tmp_path: Path) -> None:
    """A hold and its end, each beside a server that has answered before."""
    with (
        store_under_test(store_kind, tmp_path) as bed,
        live(tmp_path, LANGLAUF_STORE=bed.place) as server,
        live(tmp_path, LANGLAUF_STORE=bed.place, LANGLAUF_WORKERS="0") as other,
    ):
        job = server.wait(server.submit("echo", query="x")["job_id"])
        hold = f"/analyze/results/{job['result_id']}/hold"
        assert server.job(job["job_id"]) == server.job(job["job_id"])
        assert other.http.post(hold, json={"reason": "audit"}).status_code == 200
        assert server.job(job["job_id"])["hold_reason"] == "audit"
        assert other.http.delete(hold).status_code == 200
        assert server.job(job["job_id"])["held_at"] is None


@pytest.mark.both_stores
def test_what_is_kept_for_one_is_not_shown_to_another(closed: KeyedServer, job: dict[str, Any]) -> None:
    """Not to another org, not to a token for another job; and each sees the addresses and the id of its own request."""
    http, headers = closed.live.http, bearer(closed.admin)
    path = f"/analyze/jobs/{job['job_id']}"
    first, again = (http.get(path, headers={**headers, "X-Request-Id": name}) for name in ("one", "another"))
    assert (first.json()["request_id"], again.json()["request_id"]) == ("one", "another")
    assert first.json()["job"] == again.json()["job"]
    assert_problem(http.get(path, headers={**bearer(OPERATOR), "X-Org-Id": "org-b"}), 404, "not_found")
    other = http.post("/analyze", json={"query": "other"}, headers=headers).json()["job_id"]
    token = http.post(f"/analyze/jobs/{other}/token", headers=headers).json()["token"]
    assert_problem(http.get(path, headers=bearer(token)), 404, "not_found")


def test_a_kept_answer_is_conditional_like_any_other(server: Live) -> None:
    """With its tag 304, with another one 200; a wait for a job that has ended is over at once."""
    job = server.wait(server.submit("echo", query="x")["job_id"])
    path = f"/analyze/jobs/{job['job_id']}"
    shown = [server.http.get(path) for _ in range(2)]
    assert len({one.headers["etag"] for one in shown}) == 1
    known = server.http.get(f"{path}?wait=30", headers={"If-None-Match": shown[0].headers["etag"]})
    assert (known.status_code, known.headers["retry-after"]) == (304, shown[0].headers["retry-after"])
    assert server.http.get(path, headers={"If-None-Match": 'W/"0-waiting"'}).json()["job"] == shown[0].json()["job"]
    assert server.http.head(path).headers["content-length"] == shown[0].headers["content-length"]


def test_answers_are_kept_within_a_bound() -> None:
    """The oldest of the org that has the most goes first; a large one is not kept at all."""
    kept = StatusCache()

    def keep(org_id: str, number: int, size: int = 60_000) -> StatusCacheKey:
        audience = StatusCacheKey(org_id, str(number), trace=False, base="")
        kept.put(audience, CachedStatus(_PULSE, {}, b"x" * size))
        return audience

    small = keep("small", 0)
    flood = [keep("flood", number) for number in range(400)]
    assert kept.get(small) is not None
    assert kept.get(flood[0]) is None
    assert kept.get(flood[-1]) is not None
    assert kept.get(keep("small", 1, 100_000)) is None
