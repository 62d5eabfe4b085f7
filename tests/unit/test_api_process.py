"""Messages between the API processes of one server and their supervisor."""

import asyncio
from typing import Any

import pytest

from langlauf.cli.api_process import _ApiProcess
from langlauf.cli.api_supervisor import ScrapeText


def test_overlapping_scrapes_each_get_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two is answered, a third begins, then the other two are answered."""

    async def main() -> None:
        process = _ApiProcess(-1)
        sent: list[Any] = []
        monkeypatch.setattr(process._connection, "send", sent.append)
        first, second = (asyncio.create_task(process._scrape(False)) for _ in range(2))
        await asyncio.sleep(0)
        process._on_message(ScrapeText(sent[0].number, b"first"))
        assert await first == b"first"
        third = asyncio.create_task(process._scrape(True))
        await asyncio.sleep(0)
        process._on_message(ScrapeText(sent[1].number, b"second"))
        process._on_message(ScrapeText(sent[2].number, b"third"))
        async with asyncio.timeout(1):
            assert (await second, await third) == (b"second", b"third")

    asyncio.run(main())
