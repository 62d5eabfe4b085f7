"""The feed of an org through both clients: what is there, then what comes, and on from any place."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from langlauf.client import AsyncClient, BadRequest, Client, OrgEvent
from tests.support.server import ServerProcess


@pytest.fixture
def client(server: ServerProcess, org: str) -> Iterator[Client]:
    """A client for an org of its own."""
    with Client(server.url, org) as made:
        yield made


def _kinds(events: list[OrgEvent]) -> list[str]:
    return [event.type.rpartition(".")[2] for event in events]


def test_what_is_there_ends_and_its_place_goes_on(client: Client) -> None:
    """Without following; kinds can be chosen, and a limit leaves the rest for later."""
    first = client.submit("echo", value=1)
    first.wait(60)
    feed = client.events(follow=False)
    found = list(feed)
    assert _kinds(found) == ["queued", "started", "completed"]
    assert {event.subject for event in found} == {first.job_id}
    assert found[0].id == first.status().events[0].event_id
    assert list(client.events(feed.place, follow=False)) == []
    part = client.events(limit=2)
    assert _kinds(list(part)) == ["queued", "started"]
    assert _kinds(list(client.events(part.place, follow=False))) == ["completed"]
    assert _kinds(list(client.events(types=["completed"], follow=False))) == ["completed"]
    with pytest.raises(BadRequest):
        list(client.events("nowhere"))
    with pytest.raises(ValueError, match="limit"):
        client.events(limit=0)


def test_what_comes_is_seen_as_it_comes(client: Client) -> None:
    """From a place on, while the job has not begun; it ends after so many events, or after a time."""
    client.submit("echo", value=1).wait(60)
    feed = client.events(limit=6)
    seen: list[OrgEvent] = []
    reading = threading.Thread(target=lambda: seen.extend(feed))
    reading.start()
    job = client.submit("echo", value=2)
    reading.join(60)
    assert not reading.is_alive()
    assert _kinds(seen) == 2 * ["queued", "started", "completed"]
    assert {event.subject for event in seen[3:]} == {job.job_id}
    assert list(client.events("latest", timeout=0.5)) == []


def test_the_async_client_does_the_same(server: ServerProcess, org: str) -> None:
    """Live, with await."""

    async def main() -> None:
        async with AsyncClient(server.url, org) as client:
            job = await client.submit("echo", value=1)
            feed = client.events(limit=3)
            async with asyncio.timeout(60):
                assert _kinds([event async for event in feed]) == ["queued", "started", "completed"]
            await job.wait(60)
            assert [event async for event in client.events(feed.place, follow=False)] == []

    asyncio.run(main())
