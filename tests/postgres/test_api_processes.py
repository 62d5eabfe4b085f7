"""`langlauf serve --processes 2`: one server to its callers, whichever of its processes answers."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import httpx2
import psutil
import pytest

from langlauf.client import Client
from tests.support.metrics_scrape import read_scrape
from tests.support.postgres import fresh_database
from tests.support.processes import eventually
from tests.support.server import ServerProcess, command, environment, run_command, serving

_RATE = 30
_STREAMS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server of two processes with small limits."""
    settings = {
        "LANGLAUF_PROCESSES": "2",
        "LANGLAUF_LOG_FORMAT": "json",
        "LANGLAUF_RATE_LIMIT": f"{_RATE}/1h",
        "LANGLAUF_LIMITS": f"max_streams_org={_STREAMS}; credential_share=100",
    }
    with fresh_database() as url, serving(url, settings=settings) as running:
        eventually(lambda: len(_api_processes(running)) == 2)
        yield running


def _api_processes(server: ServerProcess) -> list[psutil.Process]:
    """The processes that accept connections."""
    found = []
    for child in psutil.Process(server.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has just ended, or is not collected yet
            found += [child] if "langlauf.cli.api_process" in child.cmdline() else []
    return found


def _accepting(server: ServerProcess) -> set[int]:
    """Open many connections at once, and return the processes that hold them."""
    held = [httpx2.Client(base_url=server.url, trust_env=False, timeout=60) for _ in range(40)]
    try:
        for http in held:
            http.get("/health").raise_for_status()
        return {
            one.pid
            for one in _api_processes(server)
            if any(peer.status == "ESTABLISHED" and peer.laddr.port == server.port for peer in one.net_connections())
        }
    finally:
        for http in held:
            http.close()


def test_a_job_is_the_same_through_every_process(server: ServerProcess) -> None:
    """Submitted on one connection, followed and read on others."""
    with Client(server.url, "org-jobs") as client:
        job_id = client.submit("steps", count=3).job_id
    for _ in range(6):
        with Client(server.url, "org-jobs") as client:
            assert client.job(job_id).result(timeout=60) == {"done": [0, 1, 4]}


def test_every_process_accepts_connections(server: ServerProcess) -> None:
    """Both take their part of many connections."""
    eventually(lambda: len(_accepting(server)) == 2)


def test_every_process_logs_as_the_settings_say(server: ServerProcess) -> None:
    """Each of them has started, and says so in JSON."""

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in server.log if line.startswith("{")]

    eventually(lambda: events().count("server_started") == 2)
    assert not [line for line in server.log if "server_started" in line and not line.startswith("{")]


def test_a_rate_holds_over_all_processes(server: ServerProcess) -> None:
    """Each request on a connection of its own, so that both processes count."""
    statuses = [
        httpx2.get(
            f"{server.url}/analyze/jobs", headers={"X-Org-Id": "org-rate"}, trust_env=False, timeout=60
        ).status_code
        for _ in range(_RATE + 10)
    ]
    assert statuses.count(200) == _RATE
    assert set(statuses[_RATE:]) == {429}


def test_a_limit_of_streams_holds_over_all_processes(server: ServerProcess) -> None:
    """The stream past the limit is refused by whichever process it meets, and a closed one makes room."""
    headers = {"X-Org-Id": "org-streams"}
    with Client(server.url, "org-streams") as client:
        job = client.submit("hang")
    address = f"{server.url}/analyze/jobs/{job.job_id}/events"
    clients = [
        httpx2.Client(headers={**headers, "Accept": "text/event-stream"}, trust_env=False, timeout=60) for _ in range(6)
    ]

    def opened(http: httpx2.Client) -> int:
        return http.send(http.build_request("GET", address), stream=True).status_code

    assert [opened(http) for http in clients[:_STREAMS]] == [200] * _STREAMS
    assert [opened(http) for http in clients[_STREAMS:]] == [429] * _STREAMS
    for http in clients:
        http.close()
    with httpx2.Client(headers=headers, trust_env=False, timeout=60) as http:
        eventually(lambda: read_scrape(http.get(f"{server.url}/metrics").text).value("langlauf_streams_open") == 0)
    assert httpx2.post(
        f"{server.url}/analyze/jobs/{job.job_id}/cancel", headers=headers, trust_env=False, timeout=60
    ).is_success


def test_metrics_count_all_processes(server: ServerProcess) -> None:
    """Whichever process is scraped, it has what all of them counted, in both formats."""

    def submitted() -> float:
        text = httpx2.get(f"{server.url}/metrics", trust_env=False, timeout=60).text
        return read_scrape(text).value("langlauf_submissions_total", outcome="accepted")

    before = submitted()
    for number in range(8):
        with Client(server.url, "org-metrics") as client:
            client.submit("steps", count=number)
    assert [submitted() for _ in range(6)] == [before + 8] * 6
    headers = {"Accept": "application/openmetrics-text"}
    text = httpx2.get(f"{server.url}/metrics", headers=headers, trust_env=False, timeout=60).text
    assert text.count("# EOF") == 1
    assert read_scrape(text).value("langlauf_submissions_total", outcome="accepted") == before + 8


def test_a_process_that_dies_is_replaced(server: ServerProcess) -> None:
    """The others go on answering, and what it counted and held does not stay behind."""
    first, second = _api_processes(server)
    first.kill()
    for _ in range(10):
        assert httpx2.get(f"{server.url}/health", trust_env=False, timeout=60).status_code == 200

    def is_replaced() -> bool:
        pids = {one.pid for one in _api_processes(server)}
        return len(pids) == 2 and second.pid in pids and first.pid not in pids

    eventually(is_replaced)
    eventually(lambda: any("api_process_died" in line and "SIGKILL" in line for line in server.log))
    with Client(server.url, "org-after") as client:
        assert client.submit("steps", count=2).result(timeout=60) == {"done": [0, 1]}


def test_a_stop_ends_every_process() -> None:
    """With exit code 0, after a job has finished within the grace period."""
    with fresh_database() as url, serving(url, settings={"LANGLAUF_PROCESSES": "2"}) as server:
        eventually(lambda: len(_api_processes(server)) == 2)
        family = psutil.Process(server.process.pid).children(recursive=True)
        with Client(server.url, "org-a") as client:
            client.submit("steps", count=1).result(timeout=60)
        assert server.stop(signal.SIGTERM) == 0
        assert not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_an_application_that_cannot_be_loaded_stops_the_server() -> None:
    """With the reason, and without trying again and again."""
    with fresh_database() as url:
        words = command("serve", "no.such:app", "--processes", "2", "--port", "0", "--store", url)
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no.such" in done.stderr


def test_sqlite_has_one_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The message says why, and what to do."""
    store = tmp_path_factory.mktemp("store") / "store.db"
    done = run_command("serve", "--processes", "2", "--port", "0", "--store", str(store))
    assert done.returncode == 1
    assert "--processes needs PostgreSQL" in done.stderr
    assert not store.exists()
