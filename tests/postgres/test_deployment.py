"""The program on PostgreSQL: servers and a worker that share only the database, with a login that owns nothing."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest
from click.testing import CliRunner

from langlauf.cli.main import main
from langlauf.client import Client, NotFound
from langlauf.store.postgres.migrate import migrate_database
from tests.postgres.isolation import let_in
from tests.support.metrics_scrape import read_scrape
from tests.support.postgres import address, fresh_database
from tests.support.server import ServerProcess, serving, working

_SECRET = "hunter22"
_LOGIN = "langlauf_serving"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """Return the URL of a migrated database for a login that may only call functions."""
    with fresh_database() as url:
        asyncio.run(migrate_database(url))
        let_in(url, _LOGIN)
        yield address(url, url.rpartition("/")[2], user=_LOGIN, password=_SECRET)


@pytest.fixture(scope="module")
def servers(store: str) -> Iterator[list[ServerProcess]]:
    """Two servers without workers, and a worker."""
    with ExitStack() as stack:
        stack.enter_context(working(store))
        yield [stack.enter_context(serving(store, settings={"LANGLAUF_WORKERS": "0"})) for _ in range(2)]


def test_every_server_sees_every_job(servers: list[ServerProcess]) -> None:
    """A job submitted to one runs on a worker elsewhere and is followed at the other; another org sees nothing."""
    first, second = (server.url for server in servers)
    with Client(first, "org-a") as client, Client(second, "org-a") as beside, Client(second, "org-b") as stranger:
        job = client.submit("steps", count=3)
        seen = beside.job(job.job_id)
        numbers = [event.event_seq for event in seen.events(timeout=60)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 3
        assert seen.result(timeout=60) == {"done": [0, 1, 4]}
        with pytest.raises(NotFound):
            stranger.job(job.job_id).status()


def test_the_password_is_not_disclosed(servers: list[ServerProcess], store: str) -> None:
    """Neither in logs nor in health and readiness; the database is named by its host and its name."""
    shown = f"postgresql://{store.rpartition('@')[2]}"
    for server in servers:
        assert any(f"store={shown}" in line for line in server.log)
        answers = [httpx2.get(f"{server.url}{path}", timeout=60).text for path in ("/health", "/ready")]
        assert _SECRET not in "".join(server.log) + "".join(answers)


@pytest.mark.parametrize("command", [["keys", "list"], ["sweep"], ["cleanup", "--dry-run"], ["migrate", "--json"]])
def test_commands_work_with_the_same_login(store: str, command: list[str]) -> None:
    """Commands on a running store need no more rights than the server."""
    said = CliRunner().invoke(main, [*command, "--store", store])
    assert said.exit_code == 0, said.output
    assert _SECRET not in said.output


def test_every_server_reports_the_same_figures(servers: list[ServerProcess]) -> None:
    """Waiting and running jobs and workers, with rights on functions alone; connections are those of each server."""
    with Client(servers[0].url, "org-a") as client:
        client.submit("steps", count=1).result(timeout=60)
    for server in servers:
        now = read_scrape(httpx2.get(f"{server.url}/metrics", timeout=60).text)
        assert (now.value("langlauf_store_up"), now.value("langlauf_build_info", store="postgresql")) == (1, 1)
        assert (now.value("langlauf_jobs_waiting"), now.value("langlauf_leases_overdue")) == (0, 0)
        assert now.by("langlauf_workers", "state") == {"working": 1}
        assert now.value("langlauf_store_connections", state="open") >= now.value(
            "langlauf_store_connections", state="busy"
        )
        assert now.value("langlauf_store_connections", state="open") > 0
        assert {"langlauf_store_file_bytes", "langlauf_store_log_bytes"} & now.names == set()
        assert now.by("langlauf_deliveries_pending", "channel") == {}


def test_endpoints_and_deliveries_are_the_same_at_every_server(servers: list[ServerProcess], store: str) -> None:
    """Added at one, changed at the other, listed by a command; a retried job keeps its subscriptions."""
    org = {"X-Org-Id": "org-hooks"}
    with (
        httpx2.Client(base_url=servers[0].url, headers=org, trust_env=False, timeout=60) as first,
        httpx2.Client(base_url=servers[1].url, headers=org, trust_env=False, timeout=60) as second,
    ):
        made = first.post("/analyze/webhooks", json={"url": "https://hooks.example/pg", "events": ["canceled"]}).json()
        one = f"/analyze/webhooks/{made['webhook']['endpoint_id']}"
        assert second.patch(one, json={"events": ["completed"]}).json()["webhook"]["events"] == ["completed"]
        assert second.post(f"{one}/rotate").json()["secret"] != made["secret"]
        notify = {"webhook": "https://hooks.example/pg", "email": "a@b.example"}
        mode = {"async_mode": {"requested": True, "notify": notify}}
        job = first.post("/analyze", json={"analysis": "steps", "input": {"count": 1}, "options": mode}).json()["job"]
        with Client(servers[0].url, "org-hooks") as client:
            client.job(job["job_id"]).wait(timeout=60)
            again = client.job(job["job_id"]).retry()
            again.wait(timeout=60)
        assert second.patch(one, json={"enabled": False}).status_code == 200
        for job_id in (job["job_id"], again.job_id):
            told = second.get("/analyze/deliveries", params={"job": job_id}).json()["deliveries"]
            assert sorted(message["channel"] for message in told) == ["email", "webhook"]
        assert second.patch(one, json={"enabled": True}).json()["webhook"]["status"] == "working"
        listed = CliRunner().invoke(main, ["webhooks", "list", "--store", store, "--org", "org-hooks"])
        assert (listed.exit_code, "hooks.example/pg" in listed.stdout) == (0, True), listed.output
        assert first.delete(one).status_code == 200
        assert second.get(one).status_code == 404
