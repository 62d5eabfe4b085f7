"""Browsers of other origins."""

from pathlib import Path

import pytest

from langlauf.api.middleware import EXPOSED_HEADERS
from langlauf.domain.errors import SettingsError
from langlauf.settings import load_settings
from tests.support.live import Live, live

UI = {"Origin": "https://ui.example"}
EVIL = {"Origin": "https://evil.example"}
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "prefer, traceparent"}


def test_a_page_of_a_listed_origin_can_read_every_answer(server: Live) -> None:
    """Errors too: without them a page could not tell its reader what is wrong."""
    for path in ("/health", "/analyze/jobs", "/analyze/jobs/unknown", "/nowhere", "/analyze", "/openapi.json"):
        response = server.http.get(path, headers=UI)
        assert response.headers["access-control-allow-origin"] == "https://ui.example", path
        exposed = response.headers["access-control-expose-headers"].split(", ")
        assert {"Location", "Retry-After", "ETag", "Link", "RateLimit", "RateLimit-Policy"} <= set(exposed)
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("headers", [{}, UI, EVIL])
def test_what_depends_on_the_origin_says_so_to_caches(server: Live, headers: dict[str, str]) -> None:
    """Also to whoever sent none: their answer must not be given to a browser later."""
    for path in ("/analyze/jobs", "/openapi.json", "/nowhere"):
        assert "Origin" in server.http.get(path, headers=headers).headers["vary"].split(", ")


def test_a_foreign_origin_gets_no_permission(server: Live) -> None:
    """The browser then keeps the answer from its page."""
    for response in (
        server.http.get("/analyze/jobs", headers=EVIL),
        server.http.options("/analyze", headers={**EVIL, **PREFLIGHT}),
    ):
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_a_preflight_needs_no_key(tmp_path: Path) -> None:
    """Browsers send none with it, and it is answered for every address alike."""
    with live(tmp_path, API_AUTH_TOKEN="s3cret-operator-token", LANGLAUF_CORS_ORIGINS="https://ui.example") as guarded:
        for path in ("/analyze", "/analyze/jobs/x/cancel", "/nowhere"):
            response = guarded.http.options(path, headers={**UI, **PREFLIGHT})
            assert (response.status_code, response.content) == (204, b"")
            assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST, PATCH, DELETE"
            assert response.headers["x-request-id"]
        refused = guarded.http.get("/analyze/jobs", headers=UI)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://ui.example")
        assert guarded.http.options("/analyze").headers["allow"] == "OPTIONS, POST"


def test_all_origins_may_be_let_in_without_cookies(tmp_path: Path) -> None:
    """* answers every origin alike, so nothing varies, and never with credentials."""
    with live(tmp_path, LANGLAUF_CORS_ORIGINS="*") as server:
        response = server.http.get("/analyze/jobs", headers=EVIL)
        assert response.headers["access-control-allow-origin"] == "*"
        assert "Origin" not in response.headers["vary"].split(", ")
        preflight = server.http.options("/analyze", headers={**EVIL, **PREFLIGHT})
        assert preflight.headers["access-control-allow-origin"] == "*"
        for one in (response, preflight):
            assert "access-control-allow-credentials" not in one.headers


def test_without_the_setting_there_is_no_cors(tmp_path: Path) -> None:
    """No headers; OPTIONS is an ordinary question."""
    with live(tmp_path) as server:
        response = server.http.options("/analyze", headers={**UI, **PREFLIGHT})
        assert (response.status_code, response.headers["allow"]) == (204, "OPTIONS, POST")
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["https://ui.example/", "ui.example", "https://UI.example", "null", "https://a b"])
def test_an_origin_that_no_browser_would_send_is_refused_at_the_start(origin: str) -> None:
    """It would never match, and nobody would know why."""
    with pytest.raises(SettingsError, match="origin"):
        load_settings({"LANGLAUF_CORS_ORIGINS": origin})


def test_what_a_page_may_read_is_in_order() -> None:
    """The list is a set, and reads as one."""
    assert sorted(EXPOSED_HEADERS, key=str.lower) == list(EXPOSED_HEADERS)
