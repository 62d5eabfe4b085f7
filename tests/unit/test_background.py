"""What is repeated ends when it is told to."""

import asyncio

from langlauf.background import PeriodicDuty


def test_a_round_that_loses_its_cancel_is_the_last_one() -> None:
    """Libraries turn a cancel into an error of their own at times: the loop outlives errors, and ends all the same."""
    rounds = 0

    async def main() -> None:
        begun = asyncio.Event()

        async def action() -> None:
            nonlocal rounds
            rounds += 1
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise RuntimeError("the connection is busy") from None

        periodic = PeriodicDuty("test", 0.0, action)
        await periodic.start()
        await begun.wait()
        await periodic.stop()
        assert not periodic.alive

    asyncio.run(main())
    assert rounds == 1
