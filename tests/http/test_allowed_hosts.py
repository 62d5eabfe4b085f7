"""A server that asks nobody for a key is called by its own names, and by pages of its own origin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.keyed_server import KeyedServer
from tests.http.test_errors import assert_problem
from tests.support.keys import bearer
from tests.support.live import Live, live
from tests.support.raw_http import RawConnection

STRANGE = [
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "[::1",
    "evil@x",
    "",
]
OURS = ["localhost", "LOCALHOST:{port}", "localhost.", "app.localhost", "127.0.0.1:{port}", "[::1]:{port}", "192.0.2.7"]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that people reach at a name."""
    with live(tmp_path_factory.mktemp("named"), LANGLAUF_PUBLIC_URL="https://jobs.example/x") as running:
        yield running


def _called(server: Live, host: str) -> dict[str, str]:
    return {"Host": host.format(port=server.url.rpartition(":")[2])}


@pytest.mark.parametrize("host", STRANGE)
def test_a_name_that_leads_here_opens_nothing(server: Live, host: str) -> None:
    """A website whose name leads to this machine reads nothing and changes nothing."""
    headers = _called(server, host)
    for path in ("/analyze/jobs", "/analyze/jobs/unknown", "/metrics"):
        assert_problem(server.http.get(path, headers=headers), 403, "forbidden")
    assert_problem(server.http.post("/analyze", json={"query": "x"}, headers=headers), 403, "forbidden")
    assert server.http.get("/", headers=headers).status_code == 403
    assert server.http.get("/health", headers=headers).status_code == 200


@pytest.mark.parametrize("host", OURS)
def test_its_own_names_and_any_address_are_known(server: Live, host: str) -> None:
    """Nobody can lead an address elsewhere, and `localhost` never leaves the machine."""
    assert server.http.get("/analyze/jobs", headers=_called(server, host)).status_code == 200


def test_a_client_without_a_name_is_no_browser(server: Live) -> None:
    """HTTP/1.0 has none to say."""
    with RawConnection(server.url) as wire:
        wire.send(b"GET /analyze/jobs HTTP/1.0\r\n\r\n")
        assert wire.reply().status == 200


def test_the_public_name_is_known(named: Live) -> None:
    """A proxy may pass on what people call it."""
    assert named.http.get("/analyze/jobs", headers={"Host": "Jobs.example"}).status_code == 200
    assert named.http.get("/analyze/jobs", headers={"Host": "evil.example"}).status_code == 403


def test_with_keys_a_name_opens_nothing_by_itself(closed: KeyedServer) -> None:
    """So any will do: the key does not come by itself."""
    response = closed.live.http.get("/analyze/jobs", headers={"Host": "any.example", **bearer(closed.admin)})
    assert response.status_code == 200


def test_who_allows_it_is_called_by_any_name(tmp_path: Path) -> None:
    """As `--allow-open` says."""
    with live(tmp_path, None, True) as server:
        assert server.http.get("/analyze/jobs", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://ui.example"}, 404),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 404),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "https://ui.example"}, 404),
        ({"Origin": "http://localhost"}, 404),
        ({}, 404),
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(server: Live, headers: dict[str, str], status: int) -> None:
    """Whether the browser names the site or only the origin; where it names neither, it is no page."""
    sent = {"Host": "localhost", **headers}
    assert server.http.post("/analyze/jobs/unknown/cancel", headers=sent).status_code == status
