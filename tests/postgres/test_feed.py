"""The feed while hosts commit in any order: no event is missed, and each job's events come in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import msgspec

from langlauf.domain.event import FeedEvent, FeedPosition, FeedRequest
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import fresh_database
from tests.support.postgres_stores import migrated_database
from tests.support.stores import SetClock
from tests.support.submissions import ORG, new_job

#: A job with nothing but events.
_LATE = "01a1ec83-4ddf-7703-b81f-c1d4b9bb0315"
_INSERT = """
INSERT INTO langlauf.event_rows (org_id, job, event_seq, event_type, occurred_at, actor_type, payload_json, event_id,
    trace_id, request_id, feed_mark)
VALUES ($1, langlauf.key_of($2), $3, $4, 1, 'worker', '{}', gen_random_uuid(), 't', 'r', langlauf.feed_mark())
"""


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[tuple[PostgresStore, asyncpg.Connection]]:
    store = await PostgresStore.open(url, hints=Hints())
    connection = await asyncpg.connect(url)
    try:
        yield store, connection
    finally:
        await connection.close()
        await store.close()


class Reader:
    """Reads page by page, and records what it saw."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.seen: list[FeedEvent] = []
        self.after: FeedPosition | None = None

    async def read(self) -> bool:
        """Read what there is; return whether something is held back."""
        while True:
            page = await self._store.tenant(ORG).feed(FeedRequest(after=self.after, limit=2))
            self.seen += page.events
            self.after = page.after
            if not page.more:
                return page.held

    async def read_all(self) -> None:
        """Read until nothing is held back: another test may keep a transaction open on the same server."""
        async with asyncio.timeout(60):
            while await self.read():  # noqa: ASYNC110 - nobody tells when a transaction of others ends
                await asyncio.sleep(0.01)

    @property
    def told(self) -> list[tuple[str, int]]:
        """Return the events by job and number, in the order they came."""
        return [(one.event.job_id, one.event.event_seq) for one in self.seen]


def test_a_late_commit_is_not_missed() -> None:
    """A transaction is open while others commit; a reader waits for it, and gets it first."""

    async def main(url: str) -> None:
        async with _opened(url) as (store, late):
            reader = Reader(store)
            await store.submit(new_job(SetClock(), job_id="first"))
            await reader.read_all()
            holding = late.transaction()
            await holding.start()
            await late.execute(_INSERT, ORG, _LATE, 1, "job.queued")
            for number in range(5):
                await store.submit(new_job(SetClock(), job_id=f"other-{number}"))
                assert await reader.read(), "something is there that may not be told yet"
            assert reader.told == [("first", 1)]
            newcomer = Reader(store)
            newcomer.after = (await store.tenant(ORG).feed(FeedRequest(latest=True))).after
            await holding.commit()
            await reader.read_all()
            assert reader.told == [("first", 1), (_LATE, 1), *((f"other-{number}", 1) for number in range(5))]
            await newcomer.read_all()
            assert newcomer.told == reader.told[1:], "the feed ended before what could not be told"

    with migrated_database() as url:
        asyncio.run(main(url))


def test_a_waiting_transaction_comes_behind_what_it_saw() -> None:
    """It has the older number, and writes the next event of a job whose first was committed meanwhile."""

    async def main(url: str) -> None:
        async with _opened(url) as (store, late):
            reader = Reader(store)
            holding = late.transaction()
            await holding.start()
            await late.fetchval("SELECT pg_current_xact_id()")
            await store.submit(new_job(SetClock(), job_id="job"))
            await reader.read()
            await late.execute(_INSERT, ORG, "job", 2, "job.running")
            await holding.commit()
            await reader.read_all()
            assert reader.told == [("job", 1), ("job", 2)]

    with migrated_database() as url:
        asyncio.run(main(url))


def test_places_stay_valid_after_a_restored_server() -> None:
    """A restored server issues lost marks again, under another timeline."""

    async def main(url: str) -> None:
        async with _opened(url) as (store, _):
            reader = Reader(store)
            await store.submit(new_job(SetClock(), job_id="kept"))
            await reader.read_all()
            place = reader.seen[-1].place
            # A restored server has another timeline, and has not reached that transaction yet.
            lost = msgspec.structs.replace(place, life=f"{place.life}0", mark=place.mark + 1_000_000, at=place.at + 1)
            await store.submit(new_job(SetClock(), job_id="new"))
            for one in (lost, msgspec.structs.replace(lost, life=place.life)):
                reader = Reader(store)
                reader.after = one
                await reader.read_all()
                assert reader.told == [("kept", 1), ("new", 1)], "at least once"

    with migrated_database() as url:
        asyncio.run(main(url))


def test_places_stay_valid_after_a_dump_and_restore() -> None:
    """Marks of another database, however high, do not interfere."""

    async def before(url: str) -> list[FeedPosition]:
        async with _opened(url) as (store, connection):
            reader = Reader(store)
            for number in range(3):
                await store.submit(new_job(SetClock(), job_id=f"old-{number}"))
            await reader.read_all()
            await connection.execute("UPDATE langlauf.event_rows SET feed_mark = feed_mark + 1000000000")
            return [msgspec.structs.replace(one.place, mark=one.place.mark + 10**9) for one in reader.seen]

    async def after(url: str, places: list[FeedPosition]) -> None:
        async with _opened(url) as (store, _):
            await store.submit(new_job(SetClock(), job_id="new"))
            whole = Reader(store)
            await whole.read_all()
            assert whole.told == [("old-0", 1), ("old-1", 1), ("old-2", 1), ("new", 1)]
            for number, place in enumerate(places):
                reader = Reader(store)
                reader.after = place
                await reader.read_all()
                assert reader.told[-3 + number :] == whole.told[number + 1 :]

    with migrated_database() as url:
        places = asyncio.run(before(url))
        with fresh_database(template=urlsplit(url).path.strip("/")) as copy:  # a dump restores every column
            asyncio.run(after(copy, places))
