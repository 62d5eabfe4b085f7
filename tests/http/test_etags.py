"""304: what the caller has is not sent again."""

from typing import Any

import pytest

from langlauf.clock import new_id
from tests.support.live import GATES, Live


@pytest.fixture
def done(server: Live) -> dict[str, Any]:
    """A job that has ended."""
    return server.wait(server.submit("echo", query="Bern")["job_id"])


@pytest.mark.parametrize("kind", ["status_url", "result_url"])
def test_what_matches(server: Live, done: dict[str, Any], kind: str) -> None:
    """Alone, in a list, over several lines, weak or strong, or whatever there is; on HEAD as on GET."""
    path = done[kind]
    first = server.http.get(path)
    etag = first.headers["etag"]
    assert etag.startswith('W/"')
    bare = etag.removeprefix("W/")
    for known in ([etag], [bare], ["*"], [f'"x", {etag}'], [f"W/{bare},W/{bare}"], ['"x"', etag]):
        headers = [("If-None-Match", one) for one in known]
        for method in ("GET", "HEAD"):
            again = server.http.request(method, path, headers=headers)
            assert (again.status_code, again.content) == (304, b""), known
            for name in ("etag", "cache-control", "vary"):
                assert again.headers[name] == first.headers[name]
            assert ("retry-after" in again.headers) == ("retry-after" in first.headers)
            assert "content-type" not in again.headers
    for known in (['"x"'], ["x"], [""], [bare.strip('"')]):
        assert server.http.get(path, headers=[("If-None-Match", one) for one in known]).status_code == 200


def test_a_result_is_sent_again_when_the_job_has_a_newer_one_or_has_ended(server: Live) -> None:
    """The link of a partial is a link to the newest; exactly this one changes once, at the job's end."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=1)["job_id"]
    GATES.wait_until_reached(gate)
    result_id = server.job(job_id)["result_id"]
    path = f"/analyze/results/{result_id}"
    views = {view: server.http.get(path, params={"view": view}).headers["etag"] for view in ("latest", "requested")}
    for view, etag in views.items():
        known = {"If-None-Match": etag}
        assert server.http.get(path, params={"view": view}, headers=known).status_code == 304
    GATES.open(gate)
    server.wait(job_id)
    for view, etag in views.items():
        again = server.http.get(path, params={"view": view}, headers={"If-None-Match": etag})
        assert (again.status_code, again.json()["job_status"]) == (200, "completed")


def test_a_result_is_asked_for_again_before_it_is_used(server: Live, done: dict[str, Any]) -> None:
    """Retention takes results away, and keys are revoked: nothing is kept for a year."""
    headers = server.http.get(done["result_url"], params={"view": "requested"}).headers
    assert headers["cache-control"] == "private, no-cache"


def test_a_tag_is_compared_after_the_org(server: Live, done: dict[str, Any]) -> None:
    """A stranger who knows the tag learns nothing by it."""
    for path in (done["status_url"], done["result_url"]):
        known = {"If-None-Match": server.http.get(path).headers["etag"]}
        for tags in (known, {"If-None-Match": "*"}):
            assert server.http.get(path, headers={**tags, "X-Org-Id": "stranger"}).status_code == 404
