"""What the store itself takes for a job: processor time, rows written, bytes kept.

Jobs with a small input and a small result, and without partials, are submitted, claimed and completed, batch after
batch of an exact size, nothing else going on. Processor time of what writes is read around each step: of the thread on
SQLite, of the database's processes on PostgreSQL.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw
import uvloop

from bench.store.counting_store import CountingStore
from bench.store.figures import StoreCost
from langlauf.bench.rounds import claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.protocol import Store

BATCH = 32
PAYLOAD_BYTES = 300
#: Longer than anything that is measured takes.
LEASE_SECONDS = 3_600.0
#: Batches that live before anything is counted: they make statements and plans, which costs once.
_WARMING = 2
_EMPTY = '{"answer":""}'
RESULT = _EMPTY[:-2] + "." * (PAYLOAD_BYTES - len(_EMPTY)) + _EMPTY[-2:]


def batches_of(jobs: int) -> int:
    """As many full batches as have that many jobs, or a few more."""
    return -(-jobs // BATCH)


def measure_cost(path: Path, jobs: int) -> StoreCost:
    """Return one round on SQLite, in a new file."""
    return uvloop.run(_round(path, batches_of(jobs)))


async def _round(path: Path, batches: int) -> StoreCost:
    store = await CountingStore.open(str(path), clock=SystemClock(), hints=Hints())
    empty = _bytes_of(path)
    try:
        await live(store, _WARMING, lambda: store.writer_seconds)
        transactions, rows = store.transactions, store.row_writes
        stages = await live(store, batches, lambda: store.writer_seconds)
        if store.transactions - transactions != len(stages) * batches:
            raise LanglaufError("the writes of the benchmark did not go in batches of one size")
        row_writes = (store.row_writes - rows) / (batches * BATCH)
    finally:
        await store.close()
    return StoreCost(
        batch=BATCH,
        stages_us=stages,
        row_writes=row_writes,
        bytes_per_job=(_bytes_of(path) - empty) / ((batches + _WARMING) * BATCH),
    )


def _bytes_of(path: Path) -> int:
    """Return the size of a file once all that was written is in it."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()
    return path.stat().st_size


async def warm_up(store: Store) -> int:
    """Lets a few jobs live; returns how many."""
    await live(store, _WARMING, lambda: 0.0)
    return _WARMING * BATCH


async def live(store: Store, batches: int, spent: Callable[[], float]) -> dict[str, float]:
    """Batches from submission to completion; the microseconds per job of each stage, by what was spent around it."""
    used = {"submit": 0.0, "claim": 0.0, "complete": 0.0}
    clock = SystemClock()
    for _ in range(batches):
        new = [new_job(clock, payload_bytes=PAYLOAD_BYTES) for _ in range(BATCH)]
        ends = [Completed(result_id=new_id(), payload=RESULT) for _ in range(BATCH)]
        before = spent()
        await asyncio.gather(*(store.submit(one) for one in new))
        submitted = spent()
        claims = await claimed(store)
        taken = spent()
        written = await asyncio.gather(
            *(store.record(claim.lease, end) for claim, end in zip(claims, ends, strict=True))
        )
        if not all(written):
            raise LanglaufError("an attempt of the benchmark lost its lease")
        used["submit"] += submitted - before
        used["claim"] += taken - submitted
        used["complete"] += spent() - taken
    return {name: seconds / (batches * BATCH) * 1e6 for name, seconds in used.items()}


async def claimed(store: Store) -> list[Claim]:
    """Return a batch of claims."""
    claims = await store.claim(claim_request(BATCH, lease_seconds=LEASE_SECONDS))
    if len(claims) != BATCH:
        raise LanglaufError(f"a claim of the benchmark got {len(claims)} jobs instead of {BATCH}")
    return claims
