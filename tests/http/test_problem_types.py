"""Where a problem's type leads, and what a problem never tells."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.clock import new_id
from langlauf.domain.errors import StoreUnavailable
from langlauf.problems import JOB_TITLES, TITLES
from langlauf.service.read import Reads
from langlauf.settings import load_settings
from langlauf.ui.language import load_language
from tests.http.test_errors import assert_problem
from tests.support.live import Live, live, sample_app

SECRETS = ("hunter2", "/srv/private/app.py", "SELECT * FROM jobs", "apsw 3.51.3.0", "Traceback", "RuntimeError")


def test_a_type_resolves_where_the_server_is(server: Live) -> None:
    """A path that leads to the page of the code."""
    problem = server.http.get(f"/analyze/jobs/{new_id()}").json()
    assert problem["type"] == "/problems/not_found"
    assert server.http.get(problem["type"]).status_code == 200


def test_a_type_starts_with_the_public_address(tmp_path: Path) -> None:
    """Behind a proxy it is what the caller can open."""
    with live(tmp_path, LANGLAUF_PUBLIC_URL="https://jobs.example/api/") as server:
        problem = server.http.get("/nowhere").json()
    assert problem["type"] == "https://jobs.example/api/problems/not_found"


def test_a_type_knows_the_mount_point(tmp_path: Path) -> None:
    """Inside another application it leads to the page there."""
    app = sample_app(settings=load_settings({"ASYNC_JOBS_STORE_FILE": str(tmp_path / "s.db"), "LANGLAUF_WORKERS": "0"}))

    async def ask() -> tuple[dict[str, Any], int]:
        transport = httpx2.ASGITransport(app.asgi(), root_path="/inside")
        async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://outer.example") as client:
            problem = (await client.get("/inside/nowhere")).json()
            return problem, (await client.get(problem["type"])).status_code

    problem, status = asyncio.run(ask())
    assert (problem["type"], status) == ("/inside/problems/not_found", 200)


def test_a_code_of_an_analysis_has_no_page(server: Live) -> None:
    """So its type says that the status is all there is to know, and its title is the status' own."""
    response = server.http.post("/analyze", json={"analysis": "failing", "how": "permanent"})
    problem = response.json()
    assert (response.status_code, problem["error"]) == (422, "address_intel")
    assert (problem["type"], problem["title"]) == ("about:blank", "Unprocessable Content")


@pytest.mark.parametrize("how", ["large", "strange", "unstorable"])
def test_codes_of_failed_jobs_lead_to_their_pages(server: Live, how: str) -> None:
    """Also those that only jobs have; the title is the page's."""
    problem = server.http.post("/analyze", json={"analysis": "failing", "how": how}).json()
    assert problem["title"] == {**TITLES, **JOB_TITLES}[problem["error"]]
    assert server.http.get(problem["type"]).status_code == 200


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_code_is_explained(language: str) -> None:
    """Title, cause and what to do, as sentences of their own."""
    texts = load_language(language).texts
    for code in (*TITLES, *JOB_TITLES):
        words = [texts[f"problem.{code}.{part}"] for part in ("title", "means", "next")]
        assert all(len(text) > 10 for text in words), code
        assert len(set(words)) == 3
        assert all(text.endswith(".") for text in words[1:]), code


@pytest.fixture
def broken(server: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Every read of tenant data fails, with everything in its message that must not leave the house."""

    def fail(*_: Any) -> None:
        raise RuntimeError("password=hunter2 in /srv/private/app.py line 7: SELECT * FROM jobs (apsw 3.51.3.0)")

    monkeypatch.setattr(Reads, "of", fail)
    return server


@pytest.mark.parametrize("path", ["/analyze/jobs", "/analyze/jobs/x", "/analyze/jobs/x/events", "/analyze/history"])
def test_an_internal_error_tells_nothing(broken: Live, path: str) -> None:
    """500 with the id that finds it in the log, and not a word of what happened."""
    response = broken.http.get(path)
    problem = assert_problem(response, 500, "internal")
    assert problem["title"] == TITLES["internal"]
    told = response.text + str(response.headers)
    assert not any(secret in told for secret in SECRETS)
    assert set(problem) == {"type", "title", "status", "detail", "ok", "error", "message", "request_id"}


@pytest.mark.parametrize("path", ["/", "/jobs/x", "/results/x"])
def test_a_page_that_breaks_tells_nothing(broken: Live, path: str) -> None:
    """Neither does a page."""
    response = broken.http.get(path)
    assert response.status_code == 500
    assert not any(secret in response.text + str(response.headers) for secret in SECRETS)


def test_a_store_that_is_gone_tells_nothing(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with when to come back; the reason stays in the log."""

    def fail(*_: Any) -> None:
        raise StoreUnavailable("/srv/private/app.py: SELECT * FROM jobs: disk I/O error")

    monkeypatch.setattr(Reads, "of", fail)
    response = server.http.get("/analyze/jobs")
    assert_problem(response, 503, "unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert not any(secret in response.text for secret in SECRETS)
