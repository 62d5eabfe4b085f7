"""The verdicts can fail: each planted fault is found, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.faults.__main__ import main
from tests.faults.command import command
from tests.faults.ledger import COMPUTED, END, KEPT, START, Ledger, Line, append_line
from tests.faults.plan import Plan
from tests.faults.races import Aim
from tests.faults.report import Figure, all_of, at_least, at_most, measured, never, quick
from tests.faults.verdicts import (
    JobObservation,
    Kill,
    changed,
    computed_again,
    healthy_losses,
    recoveries,
    stale_writes,
)

JOB = {"job_id": "j", "status": "completed", "finished_at": "now", "result_id": "r", "attempt": 1, "event_seq": 3}


def _events(*kinds: str, **payload: Any) -> list[dict[str, Any]]:
    return [{"event_type": f"job.{kind}", "payload_json": payload} for kind in kinds]


def test_a_sound_job_is_sound() -> None:
    """One end, nothing after it."""
    seen = JobObservation(JOB, _events("queued", "running", "completed"), [{"result_kind": "final"}])
    assert (seen.lost, seen.stuck, seen.finals, seen.ended_twice) == (False, False, 1, False)


def test_a_missing_job_is_lost_and_an_unended_one_is_stuck() -> None:
    """The two are distinguished."""
    assert JobObservation(None).lost
    assert not JobObservation(None).stuck
    assert JobObservation({**JOB, "finished_at": None}).stuck


@pytest.mark.parametrize("kinds", [("completed", "canceled"), ("completed", "completed"), ("failed", "progress")])
def test_a_second_end_is_seen(kinds: tuple[str, ...]) -> None:
    """Another end, the same end again, or a write after the end."""
    assert JobObservation(JOB, _events("queued", "running", *kinds)).ended_twice


def test_a_second_final_snapshot_is_seen() -> None:
    """Although the log has one end."""
    assert JobObservation(JOB, _events("queued", "completed"), [{"result_kind": "final"}] * 2).ended_twice


def test_a_stale_step_and_a_stale_snapshot_are_seen() -> None:
    """What the first attempt wrote is fine before the second started, and stale afterwards."""
    step = _events("progress", step="attempt 1")
    part = _events("partial", result_id="r1")
    snapshots = [{"result_id": "r1", "summary_json": {"attempt": 1}}]
    first, second = _events("running", attempt=1), _events("attempt_started", attempt=2)
    assert stale_writes([*first, *step, *part, *second], snapshots) == 0
    assert stale_writes([*first, *second, *step], snapshots) == 1
    assert stale_writes([*first, *part, *second, *part], snapshots) == 1


def test_a_recovery_counts_from_the_kill_or_from_the_restart() -> None:
    """From the moment at which another process could continue the job."""
    lines = [Line(START, "a", 1, 7, 1.0), Line(START, "a", 2, 8, 4.0), Line(END, "a", 2, 8, 5.0)]
    assert recoveries(lines, [Kill(7, at=2.0, since=2.0)]) == [2.0]
    assert recoveries(lines, [Kill(7, at=2.0, since=3.5)]) == [0.5]
    assert recoveries(lines, [Kill(7, at=2.0, since=4.5)]) == [0.0]


def test_a_recovery_that_was_killed_itself_counts_from_that_kill() -> None:
    """The attempt in between was claimed by a process that was killed before it began."""
    lines = [Line(START, "a", 1, 7, 1.0), Line(START, "a", 3, 9, 6.0)]
    assert recoveries(lines, [Kill(7, 2.0, 2.0), Kill(8, 4.0, 4.0)]) == [2.0]


def test_a_lease_that_a_living_process_lost_is_no_recovery() -> None:
    """It is counted separately, also if the process is killed later."""
    lines = [Line(START, "a", 1, 7, 1.0), Line(START, "a", 2, 8, 4.0)]
    for kills in ([], [Kill(7, 5.0, 5.0)]):
        assert recoveries(lines, kills) == []
        assert healthy_losses(lines, kills) == 1
    assert healthy_losses(lines, [Kill(7, 2.0, 2.0)]) == 0


def test_a_chunk_that_is_computed_again_is_seen() -> None:
    """Only if its result was stored: an interrupted chunk has to be computed again."""
    begun, kept = Line(COMPUTED, "a", 1, 7, 1.0, chunk=3), Line(KEPT, "a", 1, 7, 2.0, chunk=3)
    assert computed_again([begun, begun, kept, begun._replace(chunk=4), begun._replace(job_id="b")]) == 0
    assert computed_again([begun, kept, begun]) == 1


def test_a_final_state_that_changes_is_seen() -> None:
    """Another state, another time, another result."""
    job = {**JOB, "error_code": None}
    assert changed({"j": job}, {"j": job}) == 0
    for field, value in {"status": "canceled", "finished_at": "later", "result_id": "s", "event_seq": 4}.items():
        assert changed({"j": job}, {"j": {**job, field: value}}) == 1


def test_the_ledger_reads_what_was_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What began and did not end is running; half a line is not read until it is whole."""
    ledger = Ledger(tmp_path / "ledger")
    monkeypatch.setenv("LANGLAUF_TEST_LEDGER", str(ledger.path))
    append_line(START, "a", 1)
    append_line(START, "b", 1)
    append_line(END, "a", 1)
    with ledger.path.open("a") as file:
        file.write("start c")
    [running] = ledger.running(ledger.lines[0].pid)
    assert (running.job_id, set(ledger.latest()), ledger.ended()) == ("b", {"a", "b"}, {"a"})
    with ledger.path.open("a") as file:
        file.write(" 1 7 2.5 0\n")
    assert ledger.latest()["c"] == Line(START, "c", 1, 7, 2.5)


def test_an_aim_moves_to_where_both_sides_win() -> None:
    """A side that wins below a threshold and loses above it is met at the threshold."""
    aim = Aim(Plan(1, 1, Path()).chance("aim"), at=0.0, step=0.01, spread=0.01)
    draws: list[float] = []
    for _ in range(500):
        draws.append(aim.draw())
        aim.move(later=draws[-1] < 0.5)
    assert sum(draws[200:]) / 300 == pytest.approx(0.5, abs=0.05)


def test_a_figure_says_whether_its_promise_was_kept() -> None:
    """An untried promise is not kept; a zero has its bound."""
    kept = [never("x", 0, 300), all_of("x", 2, 2), at_least("x", 5, 5), at_most("x", 1.0, 1.0), measured("x", 7)]
    assert all(figure.kept for figure in kept)
    assert kept[0].shown == "0 of 300, 95 %: under 1 %"
    broken = [never("x", 1, 300), never("x", 0, 0), all_of("x", 1, 2), all_of("x", 0, 0), at_least("x", 4, 5)]
    assert not any(figure.kept for figure in [*broken, at_most("x", 1.01, 1.0), quick("x", 1.01, 1.0)])


@pytest.mark.parametrize(("count", "code"), [(0, 0), (1, 1)])
def test_a_broken_promise_is_the_exit_code(count: int, code: int, tmp_path: Path) -> None:
    """The command prints the table, writes the JSON, and exits with 1 if a promise was broken."""

    async def scenario(plan: Plan) -> list[Figure]:
        plan.watch(1, 1)
        return [never("rain", count, plan.times(10))]

    words = ["--seed", "7", "--scale", "0.5", "--markdown", "--json", str(tmp_path / "found.json")]
    done = CliRunner().invoke(command({"weather": scenario}, "Look at the sky."), words)
    assert done.exit_code == code, done.output
    assert f"| weather | rain | {count} of 5" in done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["seed"], found["reports"][0]["figures"][0]["value"]) == (7, count)


def test_an_unknown_scenario_is_refused() -> None:
    """With the known names."""
    done = CliRunner().invoke(main, ["--only", "kill,rain"])
    assert done.exit_code == 2
    assert "there are kill, stop" in done.output
