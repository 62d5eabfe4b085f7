"""Rounds by turns, and processes that end with all that they have started."""

import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from bench import processes
from bench.context import Context
from bench.processes import cpu_seconds, descendants, pss_bytes, running
from bench.results import Measured
from bench.sections.rounds import run_rounds
from tests.support.processes import eventually

#: It starts a child in a session of its own, as a worker's children may be, and ignores the polite signal.
_FAMILY = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
wait = "import signal; print('here', flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", wait], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
while time.process_time() < 0.05: pass  # the system counts in hundredths of a second
print("ready", flush=True)
signal.pause()
"""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A subject that needs something, or nothing."""

    name: str
    needs: tuple[str, ...] = ()
    on_disk: str = ""


def empty() -> Measured:
    """A section before its first round."""
    return Measured(measured_at="2026-01-01T00:00:00Z", machine="", rounds=2)


def test_subjects_take_turns_and_failures_are_noted(tmp_path: Path) -> None:
    """Each has its turn in every round; one that lacks a program is left out; one that fails ends no other."""
    order: list[str] = []

    def measure(subject: Given) -> dict[str, float]:
        order.append(subject.name)
        if subject.name == "broken" and len(order) < 4:
            raise RuntimeError("it did not start")
        return {"rate": float(len(order))}

    found = empty()
    context = Context(folder=str(tmp_path), rounds=2)
    subjects = [Given(name="a"), Given(name="broken"), Given(name="b", needs=("redis",)), Given(name="c")]
    run_rounds(context, found, subjects, measure)
    assert order == ["a", "broken", "c"] * 2
    assert {one.name: one.figures for one in found.subjects} == {
        "a": {"rate": [1, 4]},
        "broken": {"rate": [5]},
        "c": {"rate": [3, 6]},
    }
    assert found.notes == ["b is left out: install redis-server.", "broken failed in round 1."]


def test_a_section_that_is_over_its_limit_measures_nothing_more(tmp_path: Path) -> None:
    """What it has so far is kept, and the page says where it ended."""
    found = empty()
    run_rounds(
        Context(folder=str(tmp_path), rounds=1, limit_seconds=0.0), found, [Given(name="a")], lambda _: {"rate": 1.0}
    )
    assert (found.subjects, found.notes) == ([], ["The limit of 0 s ended it in round 1."])


def test_a_family_is_measured_and_ended_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and processor time of all; a child outside the group, and one that ignores signals, are gone as well."""
    monkeypatch.setattr(processes, "_STOP_SECONDS", 0.1)
    log = tmp_path / "log"
    with running([sys.executable, "-c", _FAMILY], folder=tmp_path, environment={}, log=log) as process:
        eventually(lambda: "ready" in log.read_text("utf-8"))
        family = descendants([process.pid])
        assert len(family) == 2
        assert pss_bytes([process.pid]) > pss_bytes([family[1].pid]) > 1_000_000
        assert cpu_seconds([process.pid]) > 0
    eventually(lambda: not any(_alive(one) for one in family))


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
