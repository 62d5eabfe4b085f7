"""One error shape for every endpoint: problem details with `ok`, `error`, `message` and `request_id`.

Bad input gets a 4xx that names the field, and nothing is written.
"""

from typing import Any

import httpx2
import pytest

from langlauf.clock import new_id
from langlauf.problems import type_of
from tests.support.live import Live

MEMBERS = {"type", "title", "status", "detail", "ok", "error", "message", "request_id"}
JSON = {"Content-Type": "application/json"}


def assert_problem(response: httpx2.Response, status: int, error: str) -> dict[str, Any]:
    """The shape, whatever went wrong."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    assert set(body) >= MEMBERS
    assert (body["ok"], body["error"], body["status"]) == (False, error, status)
    assert body["type"] == type_of(error, "")
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["message"] == body["detail"]
    return body


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({}, "query"),
    ({"query": 1}, "query"),
    ({"query": None}, "query"),
    ({"query": "x", "colour": "red"}, "colour"),
    ({"input": {"query": "x", "colour": "red"}}, "colour"),
    ({"input": "x"}, "input"),
    ({"input": {"query": "x"}, "query": "y"}, "query"),
    ({"analysis": "nope", "query": "x"}, "analysis"),
    ({"analysis": 7, "query": "x"}, "analysis"),
    ({"query": "x", "timeout_seconds": 0}, "timeout_seconds"),
    ({"query": "x", "timeout_seconds": -1}, "timeout_seconds"),
    ({"query": "x", "timeout_seconds": True}, "timeout_seconds"),
    ({"query": "x", "timeout_seconds": "soon"}, "timeout_seconds"),
    ({"query": "x", "timeout_seconds": "\u0663m"}, "timeout_seconds"),
    ({"query": "x", "options": 1}, "options"),
    ({"query": "x", "options": []}, "options"),
    ({"query": "x", "options": False}, "options"),
    ({"query": "x", "analysis": ""}, "analysis"),
    ({"query": "x", "options": {"colour": 1}}, "options.colour"),
    ({"query": "x", "options": {"async_mode": {"requested": "yes"}}}, "options.async_mode.requested"),
    ({"query": "x", "options": {"async_mode": {"priority_class": "vip"}}}, "options.async_mode.priority_class"),
    ({"query": "x", "options": {"async_mode": {"max_retries": -1}}}, "options.async_mode.max_retries"),
    ({"query": "x", "options": {"async_mode": {"max_retries": 1.5}}}, "options.async_mode.max_retries"),
    ({"query": "x", "options": {"async_mode": {"wish": 1}}}, "options.async_mode.wish"),
    (
        {"query": "x", "options": {"async_mode": {"notify": {"webhook": "https://x"}}}},
        "options.async_mode.notify.webhook",
    ),
    ({"query": "a\x00b"}, "query"),
    ({"query": "x", "org_id": "org-b", "status": "completed"}, "org_id"),
]


@pytest.mark.parametrize(("body", "field"), BAD_FIELDS)
def test_a_bad_field_is_named_and_nothing_is_written(server: Live, body: dict[str, Any], field: str) -> None:
    """400 with the field, as a member and as a JSON pointer; the org stays without a job."""
    org = {"X-Org-Id": new_id(), "Prefer": "respond-async"}
    problem = assert_problem(server.http.post("/analyze", json=body, headers=org), 400, "bad_request")
    assert problem["field"] == field
    assert problem["errors"][0]["pointer"] == "#/" + field.replace(".", "/")
    assert server.http.get("/analyze/jobs", headers=org).json()["jobs"] == []


BAD_BODIES = [
    b"",
    b"x",
    b"[]",
    b"null",
    b'"query"',
    b'{"query": "x"',
    b'{"query": "x"} trailing',
    b'{"query": "x", "query": "y"}',
    b'{"input": {"query": "x", "query": "y"}}',
    b'{"query": "::", "query": "x"}',
    b'{"query": "y", "intelligence_mode": "basic", "query": "\\u003a\\u003A"}',
    b'{"query": NaN}',
    b'{"query": Infinity}',
    b'{"query": 1e999}',
    b'{"query": "\\ud800"}',
    b'{"query": "\xff"}',
    b'\xef\xbb\xbf{"query": "x"}',
    '{"query": "x"}'.encode("utf-16"),
    b'{"query": "x", "timeout_seconds": 123456789012345678901234567890}',
    b'{"query": ' + b"[" * 65 + b"]" * 65 + b"}",
    b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"{'query': 'x'}",
    b'{"query": "x",}',
    b'{"query": "x"} // note',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_body_that_no_store_could_keep_is_refused(server: Live, body: bytes) -> None:
    """400, on every such body, and nothing is written."""
    org = {"X-Org-Id": new_id(), "Prefer": "respond-async"}
    assert_problem(server.http.post("/analyze", content=body, headers={**JSON, **org}), 400, "bad_request")
    assert server.http.get("/analyze/jobs", headers=org).json()["jobs"] == []


def test_the_size_of_a_body_is_counted_while_it_is_read(server: Live) -> None:
    """413 past 1 MiB, also where no length was announced; one at the limit is taken."""
    large = b'{"query": "' + b"x" * 1_048_576 + b'"}'
    assert_problem(server.http.post("/analyze", content=large, headers=JSON), 413, "payload_too_large")
    parts = (large[start : start + 65_536] for start in range(0, len(large), 65_536))
    assert_problem(server.http.post("/analyze", content=parts, headers=JSON), 413, "payload_too_large")
    exact = b'{"query": "' + b"x" * (1_048_576 - 13) + b'"}'
    assert len(exact) == 1_048_576
    assert server.http.post("/analyze", content=exact, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
        {**JSON, "Content-Encoding": "gzip"},
    ],
)
def test_only_plain_json_is_taken(server: Live, headers: dict[str, str]) -> None:
    """415 with what would be taken."""
    request = server.http.build_request("POST", "/analyze", content=b'{"query": "x"}', headers=headers)
    response = server.http.send(request)
    assert_problem(response, 415, "unsupported_media_type")
    assert {"accept", "accept-encoding"} & set(response.headers)


def test_unknown_paths_and_methods_have_the_same_shape(server: Live) -> None:
    """404 and 405, the latter with Allow."""
    assert_problem(server.http.get("/nowhere"), 404, "not_found")
    assert_problem(server.http.get("/analyze/jobs/"), 404, "not_found")
    response = server.http.delete("/analyze/jobs/x")
    assert_problem(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].replace(" ", "").split(",")) == {"GET", "HEAD", "OPTIONS"}
    assert_problem(server.http.get("/analyze"), 405, "method_not_allowed")


def test_head_works_wherever_get_does(server: Live) -> None:
    """Same status and headers, no body."""
    job = server.wait(server.submit("echo", query="Bern")["job_id"])
    base = f"/analyze/jobs/{job['job_id']}"
    for path in (base, f"{base}/events", f"{base}/results", f"{base}/notifications", job["result_url"],
                 "/analyze/jobs", "/analyze/history", "/health", "/ready", "/openapi.json"):  # fmt: skip
        got, head = server.http.get(path), server.http.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]


def test_a_request_id_is_kept_only_if_it_is_usable(server: Live) -> None:
    """A caller's id comes back; one that could break a log does not."""
    assert server.http.get("/health", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    for bad in ("a b", "x" * 129, "<script>"):
        assert server.http.get("/health", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


def test_nothing_inside_shows_in_an_error(server: Live) -> None:
    """An analysis that breaks tells its code and its message, no stack, no path, no version."""
    response = server.http.post("/analyze", json={"analysis": "failing", "how": "strange"})
    assert response.status_code == 500
    for leak in ("Traceback", ".py", "/src/", "sqlite", "uvicorn", "apsw"):
        assert leak not in response.text
    assert "server" not in response.headers
