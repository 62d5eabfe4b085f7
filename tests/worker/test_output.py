"""What a function prints, on its way to the log: secrets of several lines, and of lines that are cut."""

import asyncio
import logging
import os

import pytest

from langlauf.worker.processes.process import OutputLog


def _told(caplog: pytest.LogCaptureFixture, *pieces: bytes) -> list[str]:
    async def body() -> None:
        output = OutputLog("stdout", {})
        for piece in pieces:
            os.write(output.other, piece)
            while output.read():
                pass
        output.close()

    caplog.clear()
    with caplog.at_level(logging.INFO, "langlauf"):
        asyncio.run(body())
    return [vars(record)["fields"]["text"] for record in caplog.records]


def test_a_private_key_of_many_lines_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    """It is printed line by line, and only its first line says what it is."""
    key = b"-----BEGIN PRIVATE KEY-----\nbWFkZXVw\nbWFkZXVw\n-----END PRIVATE KEY-----\n"
    assert _told(caplog, b"before\n" + key + b"after\n") == ["before", "[redacted]", "after"]
    assert _told(caplog, b"-----BEGIN PRIVATE KEY-----\nbWFkZXVw\n", b"never ended, but goes on\n") == [
        "[redacted]",
        "never ended, but goes on",
    ]


def test_a_line_is_masked_before_it_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """However the pieces arrive, and wherever the cut falls."""
    line = b"x " * 994 + b"password='made up made up'\n"
    [told] = _told(caplog, line)
    assert "made" not in told
    assert len(told) <= 2_000
    told = "".join(_told(caplog, b"y" * 20_000, b"y" * 20_000 + b" tok", b"en=made0up0made0up\n", b"next\n"))
    assert told.endswith("next")
    assert "made" not in told
