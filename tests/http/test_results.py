"""Results: permanent links, projections, history."""

import pytest

from langlauf.clock import new_id
from tests.support.live import GATES, Live

pytestmark = pytest.mark.both_stores
KEYS = {
    "ok", "request_id", "result_id", "job_id", "job_status", "cancel_reason", "error_code", "result_kind", "result_seq",
    "created_at", "result", "summary", "requested_result_id", "requested_result_kind", "projection_mode",
}  # fmt: skip


def test_a_result_is_projected_to_the_latest_or_shown_as_asked(server: Live) -> None:
    """latest is the default: the final, else the last partial; requested is exactly that snapshot."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate, partials=2)["job_id"]
    GATES.wait_until_reached(gate)
    first, second = (one["result_id"] for one in server.http.get(f"/analyze/jobs/{job_id}/results").json()["results"])
    running = server.http.get(f"/analyze/results/{first}").json()
    assert (running["result_id"], running["result_kind"], running["result"]) == (second, "partial", {"n": 2})
    assert running["job_status"] == "partial"
    GATES.open(gate)
    final_id = server.wait(job_id)["result_id"]
    latest = server.http.get(f"/analyze/results/{first}", params={"view": "latest"}).json()
    assert set(latest) == KEYS
    assert (latest["result_id"], latest["result_kind"], latest["result_seq"]) == (final_id, "final", 3)
    assert (latest["requested_result_id"], latest["requested_result_kind"]) == (first, "partial")
    assert latest["projection_mode"] == "latest"
    exact = server.http.get(f"/analyze/results/{first}", params={"view": "requested"}).json()
    assert (exact["result_id"], exact["result"], exact["summary"]) == (first, {"n": 1}, {"n": 1})
    assert exact["projection_mode"] == "requested"


def test_a_snapshot_of_a_failed_job_says_so(server: Live) -> None:
    """Partials outlive the failure and carry its code."""
    job = server.wait(server.submit("failing", how="permanent")["job_id"])
    snapshot = server.http.get(f"/analyze/results/{job['result_id']}").json()
    assert (snapshot["job_status"], snapshot["error_code"]) == ("failed", "address_intel")
    assert snapshot["result"] == {"before": "permanent"}


@pytest.mark.parametrize("view", ["newest", "", "LATEST"])
def test_other_views_are_refused(server: Live, view: str) -> None:
    """400 that names the parameter."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    response = server.http.get(f"/analyze/results/{job['result_id']}", params={"view": view})
    assert (response.status_code, response.json()["field"]) == (400, "view")


def test_a_large_result_is_a_link_in_the_status(server: Live) -> None:
    """Over 256 KiB the status has null and the link delivers it."""
    job = server.wait(server.submit("echo", query="x" * 300_000)["job_id"])
    assert (job["status"], job["result"]) == ("completed", None)
    assert len(server.http.get(job["result_url"]).json()["result"]["query"]) == 300_000


def test_history_has_results_with_what_was_asked(server: Live) -> None:
    """Newest first, with total, limit and offset."""
    org = new_id()
    made = [server.submit("echo", org, query=f"q{number}", intelligence_mode="risk")["job_id"] for number in range(3)]
    for job_id in made:
        server.wait(job_id, org)
    body = server.http.get("/analyze/history", params={"limit": 2}, headers={"X-Org-Id": org}).json()
    assert (body["total"], body["limit"], body["offset"]) == (3, 2, 0)
    assert [entry["query"] for entry in body["history"]] == ["q2", "q1"]
    assert set(body["history"][0]) == {"result_id", "job_id", "created_at", "query", "intelligence_mode", "status"}
    assert body["history"][0]["intelligence_mode"] == "risk"
    body = server.http.get("/analyze/history", params={"limit": 2, "offset": 2}, headers={"X-Org-Id": org}).json()
    assert [entry["query"] for entry in body["history"]] == ["q0"]
