"""Where an analysis went wrong is for operators and developers to see, and for no other caller."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from langlauf.domain.access import GRANTABLE_SCOPES, Scope
from tests.http.keyed_server import KeyedServer
from tests.support.keys import OPERATOR, bearer, make_key
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
def test_the_operator_and_debug_keys_see_the_trace(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """In the status, in the list and in the answer to a cancel; with a key for everything else, nowhere."""
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
    assert all(_FRAME in meta["trace"] for meta in metas(bearer(closed.admin)))
    tenant = _all_but_debug(closed)
    assert metas(tenant) == [{"error_type": "RuntimeError"}] * 3
    for address in (path, f"{path}/events", "/analyze/jobs", f"{path}/notifications", f"/jobs/{failed['job_id']}"):
        assert "Traceback" not in http.get(address, headers=tenant).text


def test_a_job_token_of_the_operator_does_not_show_it(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """A page that follows the job sees what its org sees."""
    operator = {**bearer(OPERATOR), "X-Org-Id": "org-a"}
    path = f"/analyze/jobs/{failed['job_id']}"
    token = closed.live.http.post(f"{path}/token", headers=operator).json()["token"]
    shown = closed.live.http.get(path, headers=bearer(token))
    assert (shown.status_code, shown.json()["job"]["error_meta"]) == (200, {"error_type": "RuntimeError"})


def test_the_page_shows_it_to_those_who_may(closed: KeyedServer, failed: dict[str, Any]) -> None:
    """With the token in a header, as a proxy sends it; the trace is text."""
    address = f"/jobs/{failed['job_id']}"
    shown = closed.live.http.get(address, headers={**bearer(OPERATOR), "X-Org-Id": "org-a"}).text
    assert "in failing" in shown
    assert '<details id="trace">' in shown
    assert "RuntimeError, raised in failing, " in shown
    assert '<details id="trace">' in closed.live.http.get(address, headers=bearer(closed.admin)).text
    hidden = closed.live.http.get(address, headers=_all_but_debug(closed)).text
    assert "in failing" not in hidden
    assert 'trace"' not in hidden


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that asks for no key."""
    with live(tmp_path_factory.mktemp("open")) as running:
        yield running


def test_an_open_server_shows_it_on_its_own_machine_only(
    open_server: Live, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A loopback server without keys is a developer's; one with a public URL is not."""
    job = open_server.wait(open_server.submit("failing", how="bug")["job_id"])
    assert _FRAME in job["error_meta"]["trace"]
    assert "Traceback" in open_server.http.get(f"/jobs/{job['job_id']}").text
    with live(tmp_path_factory.mktemp("public"), LANGLAUF_PUBLIC_URL="https://jobs.example") as public:
        job = public.wait(public.submit("failing", how="bug")["job_id"])
        assert (job["status"], job["error_meta"]) == ("failed", {"error_type": "RuntimeError"})
        assert "Traceback" not in public.http.get(f"/jobs/{job['job_id']}").text


def test_the_log_says_why_an_attempt_failed(open_server: Live, caplog: pytest.LogCaptureFixture) -> None:
    """At warning, with code, message and trace, also where it is tried again; secrets are masked."""
    with caplog.at_level(logging.WARNING, "langlauf"):
        ids = [open_server.submit("failing", how=how)["job_id"] for how in ("bug", "transient")]
        for job_id in ids:
            open_server.wait(job_id)
    said = [vars(one)["fields"] for one in caplog.records if one.getMessage() == "attempt_failed"]
    bugs = [one for one in said if one["job_id"] == ids[0]]
    assert [(one["code"], one["message"]) for one in bugs] == [("internal", "RuntimeError: broken bug")]
    assert _FRAME in bugs[0]["trace"]
    again = [one for one in said if one["job_id"] == ids[1]]
    assert len(again) == 4
    assert "abcdef123456" not in str(again)


def _all_but_debug(closed: KeyedServer) -> dict[str, str]:
    return bearer(make_key(closed.store, "org-a", *(GRANTABLE_SCOPES - {Scope.DEBUG})).text)
