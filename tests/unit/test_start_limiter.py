"""Requests that arrive together are started a few per iteration of the loop, in order."""

import asyncio

from langlauf.server.connection_limit import ITERATION_SECONDS, STARTS_PER_ITERATION, StartLimiter


def test_a_few_start_per_iteration_of_the_loop() -> None:
    """The first few start at once, the others in later iterations, none is skipped."""

    async def main() -> None:
        limiter, begun = StartLimiter(asyncio.get_running_loop(), lambda: 0.0), list[int]()
        for number in range(3 * STARTS_PER_ITERATION):
            limiter.start("a", lambda number=number: begun.append(number))  # type: ignore[misc]  # bound on purpose
        sizes = [len(begun)]
        for _ in range(3):
            await asyncio.sleep(0)
            limiter.start("a", lambda: begun.append(-1))
            sizes.append(len(begun))
        assert sizes == [
            STARTS_PER_ITERATION,
            2 * STARTS_PER_ITERATION,
            3 * STARTS_PER_ITERATION,
            3 * STARTS_PER_ITERATION + 3,
        ]
        assert begun == [*range(3 * STARTS_PER_ITERATION), -1, -1, -1]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        limiter.start("a", lambda: begun.append(-2))
        assert begun[-1] == -2

    asyncio.run(main())


def test_holders_take_turns() -> None:
    """However many requests one holder has queued, the next of another starts in the next iteration."""

    async def main() -> None:
        limiter, begun = StartLimiter(asyncio.get_running_loop(), lambda: 0.0), list[str]()
        for _ in range(10 * STARTS_PER_ITERATION):
            limiter.start("a", lambda: begun.append("a"))
        limiter.start("b", lambda: begun.append("b"))
        await asyncio.sleep(0)
        assert "b" in begun
        assert len(begun) == 2 * STARTS_PER_ITERATION

    asyncio.run(main())


def test_long_iterations_start_fewer() -> None:
    """Down to one while each takes too long, whatever else is done in it; as many as before where none does."""

    async def main() -> None:
        now, step = 0.0, 2 * ITERATION_SECONDS
        limiter, begun = StartLimiter(asyncio.get_running_loop(), lambda: now), list[int]()
        for number in range(8 * STARTS_PER_ITERATION):
            limiter.start("a", lambda number=number: begun.append(number))  # type: ignore[misc]  # bound on purpose
        starts = []
        while len(begun) < 8 * STARTS_PER_ITERATION:
            before = len(begun)
            now += step
            await asyncio.sleep(0)
            starts.append(len(begun) - before)
            if len(starts) == 5:
                step = 0.0
        assert starts[:5] == [4, 2, 1, 1, 1]
        assert starts[5:12] == [2, 3, 4, 5, 6, 7, 8]
        assert begun == [*range(8 * STARTS_PER_ITERATION)]

    asyncio.run(main())
