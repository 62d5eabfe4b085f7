"""A store that cannot be read lets nobody in: neither as if there were no keys, nor as if a key were good."""

import time
from pathlib import Path

import pytest

from tests.http.keyed_server import lose_store
from tests.http.test_errors import assert_problem
from tests.support.keys import EFFECT_SECONDS, bearer, make_key
from tests.support.live import Live, live


def _until(server: Live, status: int, headers: dict[str, str]) -> None:
    """Asks until the answer is as wished; what was known a moment ago may still count."""
    deadline = time.monotonic() + EFFECT_SECONDS
    while (seen := server.http.get("/analyze/jobs", headers=headers).status_code) != status:
        assert seen != 500
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


@pytest.mark.parametrize("has_keys", [True, False])
def test_nobody_is_let_in_while_the_store_cannot_be_read(has_keys: bool, tmp_path: Path) -> None:
    """503 with when to come back, with a good key, a wrong one and none."""
    with live(tmp_path) as server:
        shown = bearer(make_key(tmp_path / "store.db", "acme").text) if has_keys else {}
        _until(server, 401 if has_keys else 200, {})
        assert server.http.get("/analyze/jobs", headers=shown).status_code == 200
        lose_store(server)
        for headers in ({}, shown, bearer("llk_of-nobody")):
            _until(server, 503, headers)
            response = server.http.get("/analyze/jobs", headers=headers)
            assert_problem(response, 503, "unavailable")
            assert int(response.headers["retry-after"]) > 0
        assert server.http.get("/health").status_code == 200
        assert server.http.get("/ready").status_code == 503
