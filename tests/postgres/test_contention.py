"""Several stores that do everything concurrently: a seeded share of `python -m tests.postgres.contention`."""

import asyncio

from langlauf.domain.errors import StoreUnhealthy
from tests.postgres.contention import Ledger, contend, judge
from tests.simulation.postgres_mutants import Edit
from tests.support.postgres import execute, fetch
from tests.support.postgres_stores import migrated_database
from tests.support.tiers import choose_seed

SECONDS = 3.0
BASE = choose_seed()


def test_concurrent_stores_keep_every_promise() -> None:
    """Limits hold at every moment; each job has the end that its caller was answered; no caller sees a deadlock."""
    with migrated_database() as url:
        ledger = asyncio.run(contend(url, SECONDS, BASE))
        assert judge(url, ledger) == []
    assert ledger.done["Completed taken"] > 0
    assert ledger.done["looks"] > 0


def test_planted_faults_are_detected() -> None:
    """The verdicts can fail."""
    with migrated_database() as url:
        ledger = asyncio.run(contend(url, 0.5, BASE))
        assert judge(url, ledger) == []
        [first, *_] = ledger.ends
        told = Ledger(accepted=ledger.accepted | {"gone"}, ends={**ledger.ends, first: [*ledger.ends[first]] * 2})
        told.shown = ledger.shown | {"lost"}
        found = " ".join(judge(url, told))
        assert "was told to be" in found
        assert "1 snapshots are lost" in found
        assert "jobs were accepted" in found


def test_unserialised_claims_are_detected() -> None:
    """Without the lock on the virtual clock two hosts count the same free slots, and exceed the limit."""
    turn = Edit("claim", "FROM lane_clock FOR UPDATE;", "FROM lane_clock;")

    def exceeded(seed: int) -> bool:
        with migrated_database() as url:
            [[definition]] = fetch(url, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'claim'")
            execute(url, turn.applied_to(definition))
            try:
                return any("run" in words for words in asyncio.run(contend(url, 2.0, seed)).wrong)
            except StoreUnhealthy:  # a deadlock
                return True

    assert any(exceeded(seed) for seed in range(BASE, BASE + 10))
