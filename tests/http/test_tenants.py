"""Tenants: the org of a request, and that nobody sees another's data."""

import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import Live, live

pytestmark = pytest.mark.both_stores
ROUTES = [
    ("GET", "/analyze/jobs/{job}"),
    ("GET", "/analyze/jobs/{job}?wait=1"),
    ("GET", "/analyze/jobs/{job}/events"),
    ("GET", "/analyze/jobs/{job}/results"),
    ("GET", "/analyze/jobs/{job}/notifications"),
    ("POST", "/analyze/jobs/{job}/cancel"),
    ("POST", "/analyze/jobs/{job}/retry"),
    ("GET", "/analyze/results/{result}"),
    ("GET", "/analyze/results/{result}?view=requested"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_foreign_id_answers_like_an_unknown_one(server: Live, method: str, path: str) -> None:
    """Status, headers and body are equal to the byte, and nothing happens to the owner's job."""
    job = server.wait(server.submit("echo", "org-a", query="Bern")["job_id"], "org-a")
    headers = {"X-Org-Id": "org-b", "X-Request-Id": "same"}
    foreign = server.http.request(method, path.format(job=job["job_id"], result=job["result_id"]), headers=headers)
    unknown = server.http.request(method, path.format(job=new_id(), result=new_id()), headers=headers)
    assert_problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content
    differing = {"date"}
    assert {k: v for k, v in foreign.headers.items() if k not in differing} == {
        k: v for k, v in unknown.headers.items() if k not in differing
    }
    assert server.job(job["job_id"], "org-a")["event_seq"] == job["event_seq"]


def test_lists_hold_the_own_org_only(server: Live) -> None:
    """jobs and history of an org have nothing of another."""
    mine, theirs = new_id(), new_id()
    job = server.wait(server.submit("echo", mine, query="Bern")["job_id"], mine)
    for path, key in (("/analyze/jobs", "jobs"), ("/analyze/history", "history")):
        assert [one["job_id"] for one in server.http.get(path, headers={"X-Org-Id": mine}).json()[key]] == [
            job["job_id"]
        ]
        assert server.http.get(path, headers={"X-Org-Id": theirs}).json()[key] == []


def test_the_org_comes_from_a_header_or_its_alias(server: Live) -> None:
    """X-Org-Id, X-Tenant-Id, or default-org."""
    for headers, org in (({"X-Org-Id": "a:b.c-d_1"}, "a:b.c-d_1"), ({"X-Tenant-Id": "t"}, "t"), ({}, "default-org"),
                         ({"X-Org-Id": "t", "X-Tenant-Id": "t"}, "t")):  # fmt: skip
        assert server.http.post("/analyze", json={"query": "x"}, headers=headers).json()["result"]["org"] == org


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Org-Id", "a b")],
        [("X-Org-Id", "")],
        [("X-Org-Id", "x" * 129)],
        [("X-Org-Id", "ä")],
        [("X-Tenant-Id", "a/b")],
        [("X-Org-Id", "a"), ("X-Org-Id", "a")],
        [("X-Org-Id", "a"), ("X-Tenant-Id", "b")],
        [("X-User-Id", "a b")],
    ],
)
def test_an_org_that_cannot_be_one_is_refused(server: Live, headers: list[tuple[str, str]]) -> None:
    """400 before anything is looked up or written."""
    raw = [(name.encode(), value.encode()) for name, value in headers]
    assert_problem(server.http.post("/analyze", json={"query": "x"}, headers=raw), 400, "bad_request")
    assert_problem(server.http.get("/analyze/jobs", headers=raw), 400, "bad_request")


def test_the_operators_token_is_asked_for_where_it_is_set(tmp_path_factory: pytest.TempPathFactory) -> None:
    """401 with a challenge without it, any org with it; health needs none."""
    with live(tmp_path_factory.mktemp("token"), API_AUTH_TOKEN="s3cret-operator-token") as running:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-API-Key": "wrong"}):
            response = running.http.post("/analyze", json={"query": "x"}, headers=headers)
            assert_problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Bearer")
        assert running.http.get("/analyze/jobs").status_code == 401
        assert running.http.get("/metrics").status_code == 401
        good = {"Authorization": "Bearer s3cret-operator-token", "X-Org-Id": "any"}
        assert running.http.post("/analyze", json={"query": "x"}, headers=good).status_code == 200
        assert running.http.get("/health").status_code == 200
