"""Lanes of the SQLite store: what claims rely on when they look for the next org."""

import asyncio

from tests.support.stores import SetClock, opened
from tests.support.submissions import accept, claim


def test_an_org_stands_at_one_place_in_all_its_lanes() -> None:
    """Held back in one analysis while others move on, it joins the queue of another one where it stands."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            await accept(store, clock, org="org-a", analysis="narrow")
            for _ in range(9):
                await accept(store, clock, org="org-b")
            for _ in range(9):
                assert len(await claim(store)) == 1
            await accept(store, clock, org="org-a")
            await accept(store, clock, org="org-c")
            lanes = store._writer.execute("SELECT org_id, analysis, virtual_start FROM lanes").fetchall()
            places = {(org_id, analysis): start for org_id, analysis, start in lanes}
            assert places["org-a", "narrow"] == places["org-a", "survey"] == 0
            assert places["org-c", "survey"] == 8

    asyncio.run(main())
