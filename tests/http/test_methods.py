"""Every address with every method: what all answers have in common, whoever asks and however."""

from typing import Any

import pytest

from langlauf.api.app import api_routes
from langlauf.ui.routes import page_routes
from tests.http.test_errors import assert_problem
from tests.support.live import Live

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
#: Who needs no key is sent on, and so is who would stop what has ended; what was not named or drawn does not exist.
_ELSEWHERE = {
    "/login": 303,
    "/cancel": 303,
    "/notify": 303,
    "/again": 404,
    "/views/1": 404,
    "/views/1.svg": 404,
    "/stream": 400,
}
#: The addresses of forms lead back to the page that they are on.
_ELSEWHERE |= dict.fromkeys(
    ("/add", "/rotate", "/test", "/switch", "/remove", "/replay", "/pause", "/resume", "/run"), 303
)
_ELSEWHERE |= {"/unsubscribe/unknown": 404}
PUBLIC = ("/help", "/docs", "/problems", "/static", "/openapi.json")


@pytest.fixture(scope="module")
def addresses(server: Live) -> dict[str, set[str]]:
    """Every address there is, with ids that exist, and the methods it knows."""
    job = server.wait(server.submit("failing", how="permanent")["job_id"])
    ids = {"job_id": job["job_id"], "result_id": job["result_id"], "code": "timeout", "key_id": "llk_unknown"}
    ids |= {"version": "any", "name": "langlauf.css", "number": "1", "token": "unknown"}
    hook = server.http.post("/analyze/webhooks", json={"url": "https://hooks.example/methods"}).json()["webhook"]
    server.wait(server.submit("failing", how="permanent")["job_id"])
    told = server.http.get("/analyze/deliveries", params={"endpoint": hook["endpoint_id"]}).json()["deliveries"]
    ids |= {"endpoint_id": hook["endpoint_id"], "notification_id": told[0]["notification_id"]}
    plan = {"name": "methods", "input": {"query": "Bern"}, "cron": "0 6 * * *"}
    ids["analysis_name"] = "echo"
    ids["schedule"] = server.http.post("/analyze/schedules", json=plan).json()["schedule"]["name"]
    context = server.app._current()
    found: dict[str, set[str]] = {}
    route: Any  # all of ours are plain routes
    for route in [*api_routes(context), *page_routes(context)]:
        found.setdefault(route.path.format(**ids), set()).update(route.methods)
    return found


def test_other_methods_are_refused_with_those_there_are(server: Live, addresses: dict[str, set[str]]) -> None:
    """405 as a problem with Allow, on pages as well; OPTIONS is told the same without being refused."""
    for path, known in addresses.items():
        allow = ", ".join(sorted({*known, "OPTIONS"}))
        for method in METHODS:
            if method in known:
                continue
            response = server.http.request(method, path, headers=BROWSER)
            assert response.headers["allow"] == allow, (method, path)
            if method == "OPTIONS":
                assert (response.status_code, response.content) == (204, b"")
            elif method == "HEAD":
                assert (response.status_code, response.content) == (405, b"")
            else:
                assert_problem(response, 405, "method_not_allowed")


def test_head_says_what_get_says(server: Live, addresses: dict[str, set[str]]) -> None:
    """The same status and headers, the length among them, and no body: API, pages, style sheet and metrics."""
    varying = {"date", "x-request-id", "retry-after"}
    ids = {"X-Request-Id": "same-length"}
    for path, known in addresses.items():
        if "GET" not in known:
            continue
        got, head = server.http.get(path, headers=ids), server.http.head(path, headers=ids)
        expected = next((status for end, status in _ELSEWHERE.items() if path.endswith(end)), 200)
        assert (got.status_code, head.status_code, head.content) == (expected, expected, b""), path
        if path == "/metrics":
            varying = {*varying, "content-length"}  # it counts itself
        assert _without(head.headers, varying) == _without(got.headers, varying), path
        assert got.headers["content-length"]


def _without(headers: Any, names: set[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


def test_every_answer_says_who_may_keep_it(server: Live, addresses: dict[str, set[str]]) -> None:
    """Tenant data is private or not kept at all, and tells what selects it; public is what holds nothing of an org."""
    for path in addresses:
        for method in ("GET", "POST", "DELETE"):
            response = server.http.request(method, path, json={} if method == "POST" else None)
            cache, vary = response.headers["cache-control"], response.headers.get("vary", "")
            public = path.startswith(PUBLIC) and response.status_code == 200
            assert cache.startswith("public" if public else ("private", "no-store")) or path.endswith(".css"), path
            for word in ("s-maxage", "must-revalidate"):
                assert word not in cache
            if not public and not path.endswith(".css"):
                for name in ("Authorization", "X-API-Key", "X-Org-Id", "X-Tenant-Id", "Accept", "Prefer"):
                    assert name in vary, (method, path)


def test_every_answer_has_the_request_id(server: Live, addresses: dict[str, set[str]]) -> None:
    """The caller's own, on whatever status, in the header and in the body where it is ours."""
    documents = ("/openapi.json", *(path for path in addresses if path.endswith("/download")))
    for path in (*addresses, "/nowhere", "/analyze/", "//analyze", "/analyze//jobs"):
        for method in METHODS:
            response = server.http.request(method, server.url + path, headers={"X-Request-Id": "mine:1"})
            assert response.headers["x-request-id"] == "mine:1", (method, path)
            assert response.headers["x-content-type-options"] == "nosniff"
            if "json" in response.headers.get("content-type", "") and response.content and path not in documents:
                assert response.json()["request_id"] == "mine:1"


@pytest.mark.parametrize("path", ["/nowhere", "/analyze/", "/analyze/jobs/", "//analyze", "/analyze//jobs", "/Analyze"])
def test_an_unknown_address_is_a_problem_for_programs_and_a_page_for_people(server: Live, path: str) -> None:
    """404 for both, nothing is redirected; the page's own links lead back from however deep."""
    url = server.url + path  # two slashes at the start of a reference would name a host
    for accept in ("*/*", "application/json", "text/html;q=0, */*"):
        assert_problem(server.http.get(url, headers={"Accept": accept}), 404, "not_found")
    assert_problem(server.http.post(url, json={}), 404, "not_found")
    page = server.http.get(url, headers=BROWSER)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert page.headers["cache-control"] == "private, no-store"
    root = "../" * (path.count("/") - 1) or "./"
    assert f'href="{root}static/' in page.text


@pytest.mark.parametrize("accept", ["text/html", "image/png", "application/xml;q=1", "", "nonsense"])
def test_the_api_speaks_json_whatever_is_accepted(server: Live, accept: str) -> None:
    """A client that asks for what there is not gets what there is."""
    response = server.http.get("/analyze/jobs", headers={"Accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


def test_an_error_on_our_side_tells_nothing(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 as a problem with the request id, which finds the trace in the log."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("secret of /srv/app.py")

    monkeypatch.setattr(type(server.app._current().services.reads), "check", broken)
    response = server.http.get("/ready", headers={"X-Request-Id": "find-me"})
    problem = assert_problem(response, 500, "internal")
    assert problem["request_id"] == "find-me"
    assert "secret" not in response.text
