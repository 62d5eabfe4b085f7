"""Where an analysis went wrong is the operator's to see, and no tenant's."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.keyed_server import KeyedServer
from tests.support.keys import OPERATOR, bearer
from tests.support.live import Live, live

_FRAME = 'in failing\n    raise RuntimeError(f"broken {how}")'


@pytest.fixture(scope="module")
def failed(closed: KeyedServer) -> dict[str, Any]:
    """A job of org-a that ended with a mistake of its analysis."""
    http, headers = closed.live.http, bearer(closed.admin)
    body = {"analysis": "failing", "input": {"how": "bug"}, "options": {"async_mode": {"requested": True}}}
    job: dict[str, Any] = http.post("/analyze", json=body, headers=headers).json()["job"]
    while job["status"] != "failed":
        job = http.get(f"/analyze/jobs/{job['job_id']}?wait=20", headers=headers).json()["job"]
    return job


@pytest.mark.both_stores
def test_the_operator_sees_the_trace_and_no_key_does(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """In the status, in the list and in the answer to a cancel; with a key for everything, nowhere."""
    http, path = closed.live.http, f"/analyze/jobs/{failed['job_id']}"
    operator = {**bearer(OPERATOR), "X-Org-Id": "org-a"}

    def metas(headers: dict[str, str]) -> list[Any]:
        jobs = [
            http.get(path, headers=headers).json()["job"],
            http.post(f"{path}/cancel", headers=headers).json()["job"],
        ]
        jobs += http.get("/analyze/jobs?status=failed", headers=headers).json()["jobs"]
        return [job["error_meta"] for job in jobs]

    assert all(_FRAME in meta["trace"] for meta in metas(operator))
    assert metas(bearer(closed.admin)) == [None, None, None]
    for address in (path, f"{path}/events", "/analyze/jobs", f"{path}/notifications", f"/jobs/{failed['job_id']}"):
        assert "Traceback" not in http.get(address, headers=bearer(closed.admin)).text


def test_a_job_token_of_the_operator_does_not_show_it(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """A page that follows the job sees what its org sees."""
    operator = {**bearer(OPERATOR), "X-Org-Id": "org-a"}
    path = f"/analyze/jobs/{failed['job_id']}"
    token = closed.live.http.post(f"{path}/token", headers=operator).json()["token"]
    shown = closed.live.http.get(path, headers=bearer(token))
    assert (shown.status_code, shown.json()["job"]["error_meta"]) == (200, None)


def test_the_page_shows_it_to_the_operator_alone(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """With the token in a header, as a proxy sends it; the trace is text."""
    address = f"/jobs/{failed['job_id']}"
    shown = closed.live.http.get(address, headers={**bearer(OPERATOR), "X-Org-Id": "org-a"}).text
    assert "in failing" in shown
    assert '<details id="trace">' in shown
    hidden = closed.live.http.get(address, headers=bearer(closed.admin)).text
    assert "in failing" not in hidden
    assert 'trace"' not in hidden


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that asks for no key."""
    with live(tmp_path_factory.mktemp("open")) as running:
        yield running


def test_in_an_open_store_nobody_is_the_operator(open_server: Live) -> None:
    """Every caller may do everything, and still is a tenant."""
    job = open_server.wait(open_server.submit("failing", how="bug")["job_id"])
    assert (job["status"], job["error_meta"]) == ("failed", None)
    assert "Traceback" not in open_server.http.get(f"/jobs/{job['job_id']}").text
