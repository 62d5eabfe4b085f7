"""A share of what `python -m tests.abuse.streams` runs, and the proof that it can say no."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.abuse.streams import Figures, measure

GOOD = Figures(
    streams=10,
    bytes_per_stream=20_000.0,
    idle_load=0.01,
    idle_load_without=0.01,
    wake_median=0.01,
    wake_p99=0.02,
    descriptors=30,
    descriptors_left=0,
    clean_ends=10,
    stop_seconds=0.2,
    exit_code=0,
    log_errors=0,
)


def test_idle_streams_cost_little_and_end_well(tmp_path: Path) -> None:
    """Every promise that the long run judges, with fewer streams."""
    figures = asyncio.run(measure(tmp_path, streams=200, streams_per_job=20, idle_seconds=2))
    assert figures.broken() == [], figures


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes_per_stream", 31_000.0),
        ("wake_p99", 1.5),
        ("descriptors_left", 1),
        ("clean_ends", 9),
        ("stop_seconds", 6.0),
        ("exit_code", 1),
        ("log_errors", 1),
    ],
)
def test_a_broken_promise_is_seen(name: str, value: float) -> None:
    """Each figure alone."""
    assert GOOD.broken() == []
    assert len(msgspec.structs.replace(GOOD, **{name: value}).broken()) == 1
