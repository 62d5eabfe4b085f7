"""Requests that arrive together begin in turns, in the order they came."""

import asyncio

from langlauf.server.connection_limit import STARTS_PER_ITERATION, StartLimiter


def test_a_few_begin_in_each_turn_of_the_loop() -> None:
    """As many as a turn takes at once, the others in the turns after it; nobody is passed over."""

    async def main() -> None:
        turnstile, begun = StartLimiter(asyncio.get_running_loop()), list[int]()
        for number in range(3 * STARTS_PER_ITERATION):
            turnstile.enter("a", lambda number=number: begun.append(number))  # type: ignore[misc]  # bound on purpose
        sizes = [len(begun)]
        for _ in range(3):
            await asyncio.sleep(0)
            turnstile.enter("a", lambda: begun.append(-1))
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
        turnstile.enter("a", lambda: begun.append(-2))
        assert begun[-1] == -2

    asyncio.run(main())


def test_holders_take_turns() -> None:
    """However many requests one holder has waiting, another's next one begins in the next turn."""

    async def main() -> None:
        turnstile, begun = StartLimiter(asyncio.get_running_loop()), list[str]()
        for _ in range(10 * STARTS_PER_ITERATION):
            turnstile.enter("a", lambda: begun.append("a"))
        turnstile.enter("b", lambda: begun.append("b"))
        await asyncio.sleep(0)
        assert "b" in begun
        assert len(begun) == 2 * STARTS_PER_ITERATION

    asyncio.run(main())
