"""Values of an analysis as JSON: the same text whichever way, and large ones beside the event loop."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from langlauf.analysis import payload


@dataclass
class Place:
    """Something that is no plain JSON."""

    name: str


@pytest.mark.parametrize(
    ("value", "apart"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, False),
        ("x" * 10_000, False),
        ("x" * 1_000_000, True),
        (list(range(100_000)), True),
        ([[[]] * 600] * 2, True),
        ({"place": Place("Bern")}, True),
        ({1: "a"}, False),
    ],
)
def test_large_and_unknown_values_are_encoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, value: Any, apart: bool
) -> None:
    """The event loop goes on meanwhile; small ones are not worth the way."""
    threads: list[str] = []
    plain = payload.encode

    def noted(value: Any, largest: int) -> str:
        threads.append(threading.current_thread().name)
        return plain(value, largest)

    monkeypatch.setattr(payload, "encode", noted)
    text = asyncio.run(payload.encoded(value, 10_000_000))
    assert text == plain(value, 10_000_000)
    assert (threads != [threading.main_thread().name]) == apart
