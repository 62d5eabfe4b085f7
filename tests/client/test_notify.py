"""Whom to tell of a job's end, said by each of the ways to submit one that are not plain HTTP."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from langlauf.analysis.schema import InvalidInput
from langlauf.cli.main import main
from langlauf.client import AsyncClient, BadRequest, Client, Conflict
from langlauf.clock import new_id
from langlauf.domain.state import Status
from langlauf.settings import load_settings
from tests.support.live import GATES, Live, live, sample_app

EMAIL = {"email": "anna@mail.example"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that sends nothing."""
    with live(tmp_path_factory.mktemp("notify"), LANGLAUF_DELIVERIES="0") as running:
        yield running


def _told(server: Live, job_id: str) -> list[str]:
    server.wait(job_id)
    with Client(server.url) as client:
        return sorted(one.channel for one in client.notifications(job_id))


def test_both_clients_pass_it_on(server: Live) -> None:
    """And a refusal names the field."""

    async def submit() -> str:
        async with AsyncClient(server.url) as client:
            return (await client.submit("echo", query="1", notify=EMAIL)).job_id

    with Client(server.url) as client:
        assert _told(server, client.submit("echo", query="2", notify=EMAIL).job_id) == ["email", "in_app"]
        with pytest.raises(BadRequest) as refused:
            client.submit("echo", query="3", notify={"email": "nobody"})
    assert refused.value.problem["field"] == "options.async_mode.notify.email"
    assert _told(server, asyncio.run(submit())) == ["email", "in_app"]


def test_a_job_of_the_async_client_gets_a_receiver_of_mail(server: Live) -> None:
    """While it runs, and a later address replaces an earlier one; after its end the server refuses."""
    gate = new_id()

    async def scene() -> tuple[str, str]:
        async with AsyncClient(server.url) as client:
            job = await client.submit("gated", gate=gate)
            await asyncio.to_thread(GATES.wait_until_reached, gate)
            assert (await job.notify("first@mail.example")).status is Status.RUNNING
            await job.notify("anna@mail.example", "de")
            GATES.open(gate)
            await job.wait(timeout=60)
            with pytest.raises(Conflict) as refused:
                await job.notify("anna@mail.example")
            return job.job_id, refused.value.code

    job_id, code = asyncio.run(scene())
    assert code == "has_ended"
    assert _told(server, job_id) == ["email", "in_app"]
    assert server.app.runtime is not None
    wishes = server.run(server.app.runtime.store.tenant("default-org").subscriptions(job_id))
    assert [(wish.target, wish.language) for wish in wishes] == [("anna@mail.example", "de")]


def test_the_command_passes_it_on(server: Live) -> None:
    """Exit code 2 where it cannot be used."""
    words = ["submit", "--analysis", "echo", "query=Bern", "--url", server.url]
    made = CliRunner().invoke(main, [*words, "--notify-email", EMAIL["email"]])
    assert _told(server, made.stdout.strip()) == ["email", "in_app"]
    refused = CliRunner().invoke(main, [*words, "--notify-webhook", "http://127.0.0.1/"])
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_a_program_without_http_passes_it_on(tmp_path: Path) -> None:
    """`app.submit(notify=…)`, checked as a request is."""
    settings = load_settings({"ASYNC_JOBS_STORE_FILE": str(tmp_path / "s.db"), "LANGLAUF_DELIVERIES": "0"})
    app = sample_app(settings=settings)

    async def scene() -> list[str]:
        async with app.lifespan():
            with pytest.raises(InvalidInput):
                await app.submit("echo", query="x", notify={"webhook": "http://localhost/"})
            job = await app.submit("echo", query="Bern", notify={"email": "anna@mail.example"})
            assert app.runtime is not None
            subscriptions = await app.runtime.store.tenant(job.org_id).subscriptions(job.job_id)
            return [wish.target for wish in subscriptions]

    assert asyncio.run(scene()) == ["anna@mail.example"]
