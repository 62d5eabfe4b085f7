"""What a signal of work says, and what a wait that ends without one says."""

import asyncio

from langlauf.hints import Hints


def _counted(hints: Hints, seconds: float) -> int:
    """Wait once; return how many signals of work were added."""
    before = hints.work_signals
    asyncio.run(hints.wait_for_work(seconds))
    return hints.work_signals - before


def test_a_free_slot_is_no_signal_of_work() -> None:
    """It wakes a worker that may ask for more; that a job has come is another matter."""
    hints = Hints()
    hints.claim_again()
    assert _counted(hints, 60) == 0
    hints.work()
    assert hints.work_signals == 1
    assert _counted(hints, 60) == 0


def test_after_so_long_without_a_signal_there_may_be_work_all_the_same() -> None:
    """Also where waits were cut short again and again, as by the ends of many jobs."""
    hints = Hints()
    assert _counted(hints, 0) == 1
    hints.claim_again()
    assert _counted(hints, 0) == 1
