"""Texts of callers and analyses are shown as they are, and are never markup."""

import httpx2

from langlauf.clock import new_id
from tests.support.live import GATES, Live
from tests.ui.conftest import HOSTILE
from tests.ui.html_page import assert_page


def assert_only_text(response: httpx2.Response, times: int, status: int = 200) -> None:
    """The attack can be read at least so often, and nothing of it is in the markup."""
    made = assert_page(response, status)
    assert made.text.count("<script>alert('x')</script>") >= times, made.text
    assert "<script>" not in response.text
    assert "<img src=x" not in response.text
    assert made.text.count("{{7*7}}") >= times, "a template was evaluated"


def test_the_first_page_shows_texts_of_authors_as_text(server: Live) -> None:
    """Descriptions and defaults of an analysis are no markup."""
    assert_only_text(server.http.get("/", params={"analysis": "hostile"}), 3)


def test_the_reference_shows_texts_of_authors_as_text(server: Live) -> None:
    """The same in the API reference."""
    assert_only_text(server.http.get("/docs"), 3)


def test_a_running_job_shows_its_texts_as_text(server: Live) -> None:
    """Step, summary and events while it runs; the result with its names and values."""
    gate = new_id()
    job_id = server.submit("hostile", gate=gate, query=HOSTILE)["job_id"]
    GATES.wait_until_reached(gate)
    job = server.job(job_id)
    assert_only_text(server.http.get(f"/jobs/{job_id}"), 4)
    assert_only_text(server.http.get(f"/results/{job['result_id']}"), 3)
    GATES.open(gate)
    done = server.wait(job_id)
    assert_only_text(server.http.get(f"/results/{done['result_id']}"), 2)


def test_a_failed_job_shows_its_error_as_text(server: Live) -> None:
    """Code and message, on both pages and in the timeline."""
    gate = new_id()
    job_id = server.submit("hostile", gate=gate, query="x", mode="fail")["job_id"]
    GATES.open(gate)
    job = server.wait(job_id)
    assert job["error_message"] == HOSTILE
    assert_only_text(server.http.get(f"/jobs/{job_id}"), 6)
    assert_only_text(server.http.get(f"/results/{job['result_id']}"), 4)


def test_a_canceled_job_shows_the_reason_as_text(server: Live) -> None:
    """What somebody wrote when canceling."""
    gate = new_id()
    job_id = server.submit("hostile", gate=gate, query="y")["job_id"]
    GATES.wait_until_reached(gate)
    server.http.post(f"/analyze/jobs/{job_id}/cancel", json={"reason": HOSTILE})
    job = server.wait(job_id)
    assert job["status"] == "canceled"
    assert_only_text(server.http.get(f"/jobs/{job_id}"), 5)
    assert_only_text(server.http.get(f"/results/{job['result_id']}"), 4)


def test_addresses_and_headers_are_not_reflected(server: Live) -> None:
    """An org, a parameter or an id that is an attack is nowhere in the markup."""
    raw = [(b"x-org-id", HOSTILE.encode())]
    assert_only_text(server.http.get("/", headers=raw), 0, 400)
    assert_only_text(server.http.get("/", params={"lang": HOSTILE, "refresh": HOSTILE, "analysis": "hostile"}), 3)
    assert_only_text(server.http.get("/", params={"analysis": HOSTILE}), 0, 404)
    assert_only_text(server.http.get("/results/x", params={"view": HOSTILE}), 0, 400)
    for address in ("/jobs/", "/results/", "/problems/"):
        assert_only_text(server.http.get(address + "%3Cscript%3Ealert('x')%3C%22%3E"), 0, 404)
    assert_only_text(server.http.get("/jobs/x", headers={"X-Request-Id": HOSTILE}), 0, 404)
