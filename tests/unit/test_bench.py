"""A tiny run of the benchmark: it measures everything it promises. How fast anything is, no test asks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from langlauf.cli.main import main

TINY = ("bench", "--jobs", "200", "--rounds", "1", "--history", "50,200")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one run prints as JSON."""
    folder = tmp_path_factory.mktemp("bench")
    done = CliRunner().invoke(main, [*TINY, "--json", "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    assert list(folder.iterdir()) == [], "the stores are removed"
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def test_store_is_measured_beside_the_ceiling(report: dict[str, Any]) -> None:
    found = report["lifecycle"]
    assert found["jobs"] == 200
    assert found["concurrency"] == 64
    assert 1 <= found["mean_batch"] <= 4 * 64
    assert len(found["rounds"]) == 1
    for name in ("jobs_per_second", "ceiling_jobs_per_second", "ratio_to_ceiling"):
        assert found[name] > 0
    for name in ("submit_ms", "submit_to_start_ms"):
        assert 0 < found[name]["p50"] <= found[name]["p99"]


def test_http_is_measured(report: dict[str, Any]) -> None:
    found = report["http"]
    assert (found["jobs"], found["clients"]) == (200, 32)
    for name in ("jobs_per_second", "ratio_to_ceiling", "unloaded_p50_ms"):
        assert found[name] > 0
    for name in ("submit_ms", "submit_to_start_ms"):
        assert 0 < found[name]["p50"] <= found[name]["p99"]


def test_polls_are_compared_between_histories(report: dict[str, Any]) -> None:
    found = report["polls"]
    assert [one["finished_jobs"] for one in found["histories"]] == [50, 200]
    for one in (*found["histories"], found["ratios"]):
        assert all(figure > 0 for name, figure in one.items() if name != "fill_seconds"), one
    assert set(found["ratios"]) == {
        "status",
        "status_read",
        "status_at_once",
        "status_first",
        "first_page",
        "submit_and_claim",
    }


def test_json_goes_to_a_file_beside_the_table(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    arguments = (*TINY, "--only", "lifecycle", "--json", str(file), "--markdown", "--folder", str(tmp_path))
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    written = msgspec.json.decode(file.read_bytes())
    assert written["lifecycle"]["ratio_to_ceiling"] > 0
    assert written["http"] is written["polls"] is None
    assert "| store, 64 jobs at once: ratio to the raw ceiling |" in done.stdout


@pytest.mark.parametrize("sizes", ["", "0", "many", "10,-1"])
def test_impossible_histories_are_refused(sizes: str) -> None:
    done = CliRunner().invoke(main, ["bench", "--history", sizes])
    assert done.exit_code == 2
    assert "numbers over 0" in done.output
