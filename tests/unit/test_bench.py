"""`langlauf bench`: the shape of its report, what it leaves behind, and what it refuses. No figure is judged."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from langlauf.bench import suite
from langlauf.bench.rounds import (
    BenchReport,
    DurationPercentiles,
    HttpResults,
    StoreResults,
    lines_of,
    median_percentiles,
    percentiles,
)
from langlauf.cli.main import main
from tests.support.postgres import fetch, own_server

FEW = ("bench", "--jobs", "6", "--concurrency", "2", "--clients", "2", "--rounds", "1")


def test_a_run_prints_json_and_removes_its_stores(tmp_path: Path) -> None:
    """What was asked for has its figures, what was not is null; nothing is left in the folder."""
    done = CliRunner().invoke(main, [*FEW, "--only", "store", "--json", "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == []
    report = msgspec.json.decode(done.stdout)
    assert report["http"] is None
    assert report["database"].startswith("SQLite 3.")
    assert_store(report["store"])


def assert_store(found: dict[str, Any]) -> None:
    """The sizes are those asked for, and the ratio is that of the two rates beside it."""
    assert (found["jobs"], found["concurrency"]) == (6, 2)
    expected = 4 * found["jobs_per_second"] / found["commits_per_second"]
    assert found["writes_to_commits"] == pytest.approx(expected, rel=0.02, abs=0.01)
    for name in ("submit_ms", "submit_to_start_ms"):
        assert 0 < found[name]["p50"] <= found[name]["p99"]


def test_json_goes_to_a_file_beside_the_table(tmp_path: Path) -> None:
    """Over HTTP; with a name the JSON is written there, and the table is printed all the same; the server is gone."""
    file = tmp_path / "found.json"
    done = CliRunner().invoke(
        main, (*FEW, "--only", "http", "--json", str(file), "--markdown", "--folder", str(tmp_path))
    )
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == [file]
    found = msgspec.json.decode(file.read_bytes())["http"]
    assert (found["jobs"], found["clients"]) == (6, 2)
    assert f"| HTTP, 2 clients: status polls/s | {found['polls_per_second']:,.0f} |" in done.stdout


def test_stores_are_removed_when_a_measurement_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is reported, and the folder is as empty as before."""

    async def broken(where: str, jobs: int, concurrency: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(suite, "_run_round", broken)
    done = CliRunner().invoke(main, [*FEW, "--only", "store", "--folder", str(tmp_path)])
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "the disk is full" in done.output


def test_a_server_is_measured_in_databases_that_are_dropped(tmp_path: Path) -> None:
    """The same figures on PostgreSQL, by itself and over HTTP."""
    with own_server(settings={"fsync": "off"}) as server:
        where = ["--store", server.url(), "--folder", str(tmp_path), "--json"]
        done = CliRunner().invoke(main, [*FEW, *where])
        assert done.exit_code == 0, done.output
        assert not fetch(server.url(), "SELECT FROM pg_database WHERE starts_with(datname, 'langlauf_bench_')")
    report = msgspec.json.decode(done.stdout)
    assert report["database"].startswith("PostgreSQL ")
    assert_store(report["store"])
    assert report["http"]["jobs_per_second"] > 0


def test_a_spread_is_the_middle_and_the_worst_hundredth() -> None:
    """Durations in seconds become milliseconds, in whatever order they came."""
    assert percentiles([number / 1_000 for number in range(100, -1, -1)]) == DurationPercentiles(50.0, 99.0)
    assert percentiles([0.25]) == DurationPercentiles(250.0, 250.0)
    assert median_percentiles(
        [DurationPercentiles(1, 9), DurationPercentiles(3, 7), DurationPercentiles(2, 8)]
    ) == DurationPercentiles(2, 8)


def test_the_table_shows_the_figures_of_the_report() -> None:
    """Each with its own name; what was not measured has no line."""
    took = DurationPercentiles(1.25, 9.5)
    http = HttpResults(
        jobs=9, clients=3, jobs_per_second=1_234.5, submit_ms=took, submit_to_start_ms=took, polls_per_second=4_000,
        poll_ms=took,
    )  # fmt: skip
    store = StoreResults(
        jobs=9, concurrency=64, commits_per_second=2_000, jobs_per_second=5_000, writes_to_commits=10, submit_ms=took,
        submit_to_start_ms=took,
    )  # fmt: skip
    report = BenchReport(measured_at="2026-01-01T00:00:00Z", python="3", database="SQLite 3", cores=2, http=http)
    shown = {what: figure for what, figure, _ in lines_of(report)}
    assert shown["HTTP, 3 clients: jobs/s"] == "1,234"
    assert shown["HTTP, 3 clients: submit p50 / p99, ms"] == "1.2 / 9.5"
    assert not [what for what in shown if what.startswith("store,")]
    shown = {what: figure for what, figure, _ in lines_of(msgspec.structs.replace(report, store=store))}
    assert shown["durable writes of jobs to such commits: ratio"] == "10.0"


@pytest.mark.parametrize("flag", ["--jobs", "--concurrency", "--clients", "--rounds"])
def test_nothing_is_measured_with_none_of_something(flag: str) -> None:
    """Every count is 1 or more."""
    done = CliRunner().invoke(main, ["bench", flag, "0"])
    assert done.exit_code == 2
    assert "0 is not in the range x>=1" in done.output


def test_a_store_is_a_server() -> None:
    """A file is measured without the flag; a server that is not there is an error."""
    elsewhere = CliRunner().invoke(main, ["bench", "--store", "jobs.db"])
    assert elsewhere.exit_code == 2
    missing = CliRunner().invoke(main, ["bench", "--store", "postgresql://nobody@127.0.0.1:1/none"])
    assert missing.exit_code == 1
    assert "cannot connect to the database" in missing.output
