"""The three examples, each under plain uvicorn: the whole way of a job, and every address under the prefix right."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from langlauf.client import Client
from tests.support.uvicorn_process import UvicornProcess, uvicorn
from tests.ui.html_page import HtmlPage

FRAMEWORKS = ("starlette", "fastapi", "django")
#: The FastAPI example asks who it is; the others do not look.
ADA = {"Authorization": "Bearer token-of-ada"}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UvicornProcess]:
    """One of the examples. Its lifespan ends with the server: the last connection takes its log away."""
    folder = tmp_path_factory.mktemp(request.param)
    with uvicorn(f"mounted_{request.param}:app", folder) as server:
        server.http.headers.update(ADA)
        yield server
        assert (folder / "store.db-wal").exists()
        server.stop()
        assert not (folder / "store.db-wal").exists()


def test_a_job_goes_its_whole_way(mounted: UvicornProcess) -> None:
    """Submitted, followed and read through the addresses that the answers themselves give."""
    headers = {"Prefer": "respond-async"}
    accepted = mounted.http.post("/tools/analyze", json={"text": "one two three"}, headers=headers)
    assert accepted.status_code == 202, accepted.text
    assert accepted.headers["location"].startswith("/tools/analyze/jobs/")
    job = mounted.http.get(accepted.headers["location"], params={"wait": 30}).json()["job"]
    while not job["finished_at"]:
        job = mounted.http.get(job["status_url"], params={"wait": 30}).json()["job"]
    assert mounted.http.get(job["result_url"]).json()["result"] == {"words": 3}
    [snapshot] = mounted.http.get(job["status_url"] + "/results").json()["results"]
    assert mounted.http.get(snapshot["result_url"]).status_code == 200
    waited = mounted.http.post("/tools/analyze", json={"text": "one"})
    assert waited.headers["content-location"] == f"/tools/analyze/jobs/{waited.json()['job_id']}"


def test_the_pages_of_a_list_and_the_meaning_of_an_error_are_under_the_prefix(mounted: UvicornProcess) -> None:
    """`Link` and `type` lead somewhere."""
    for text in ("a", "b", "c"):
        mounted.http.post("/tools/analyze", json={"text": text})
    page = mounted.http.get("/tools/analyze/jobs", params={"limit": 1})
    following = page.headers["link"].partition(">")[0].removeprefix("<")
    assert following.startswith("/tools/analyze/jobs?")
    assert mounted.http.get(following).json()["jobs"] != page.json()["jobs"]
    problem = mounted.http.get("/tools/analyze/jobs/nothing").json()
    assert problem["type"] == "/tools/problems/not_found"
    assert "not_found" in mounted.http.get(problem["type"]).text
    document = mounted.http.get("/tools/openapi.json").json()
    assert document["servers"] == [{"url": "/tools"}]


def test_every_link_of_every_page_leads_somewhere(mounted: UvicornProcess) -> None:
    """Style sheet included; the page about an address that does not exist has right links too."""
    done = mounted.http.post("/tools/analyze", json={"text": "x y"}).json()
    starts = ("", f"jobs/{done['job_id']}", f"results/{done['result_id']}", "docs", "problems", "a/b/c")
    for start in starts:
        answer = mounted.http.get(f"/tools/{start}", headers={"Accept": "text/html"})
        assert answer.status_code == (404 if start == "a/b/c" else 200)
        made = HtmlPage(answer.text)
        linked = made.links() + [one["href"] for one in made.all("link") if not one["href"].startswith("data:")]
        targets = {urljoin(f"/tools/{start}", target).partition("#")[0] for target in linked}
        for target in targets:
            assert target.startswith("/tools/"), (start, target)
            found = mounted.http.get(target, headers={"Accept": "text/html"})
            assert found.status_code in (200, 404 if target.startswith("/tools/a/b/c") else 200), (start, target)
    bare = mounted.http.get("/tools")
    assert (bare.status_code, urljoin("/tools", bare.headers["location"]).endswith("/tools/")) == (307, True)


def test_the_outer_application_submits_without_http(mounted: UvicornProcess) -> None:
    """Its own route hands out a job that the mounted API knows."""
    later = mounted.http.post("/count/one two")
    assert later.status_code == 202, later.text
    job = mounted.http.get(later.json()["status_url"], params={"wait": 10})
    assert job.json()["job"]["analysis"] == "word_count"
    assert mounted.http.get("/tools/ready").json()["status"] == "ready"


def test_the_client_works_under_the_prefix(mounted: UvicornProcess) -> None:
    """Its address is that of the mount point."""
    with Client(f"{str(mounted.http.base_url).rstrip('/')}/tools", key="token-of-ada") as client:
        assert client.submit("word_count", text="a b c d").result(timeout=60) == {"words": 4}


def test_the_sign_in_of_the_outer_application_decides_the_org(tmp_path: Path) -> None:
    """Nobody gets in without a token, nor into another org by naming it."""
    with uvicorn("mounted_fastapi:app", tmp_path) as server:
        assert server.http.post("/tools/analyze", json={"text": "x"}).status_code == 401
        assert server.http.post("/count/x").status_code in (401, 403)
        ada = server.http.post("/tools/analyze", json={"text": "x"}, headers=ADA).json()["job_id"]
        bob = {"Authorization": "Bearer token-of-bob"}
        for named in ({}, {"X-Org-Id": "ada-ltd"}, {"X-Tenant-Id": "ada-ltd"}):
            assert server.http.get(f"/tools/analyze/jobs/{ada}", headers={**bob, **named}).status_code == 404
        assert server.http.get(f"/tools/analyze/jobs/{ada}", headers=ADA).json()["job"]["org_id"] == "ada-ltd"
