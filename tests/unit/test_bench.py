"""The benchmark on SQLite: what it computes from given figures, the shape of its report, and what it refuses.

How fast anything is, no test asks.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from langlauf.bench.cost import BATCH, PAYLOAD_BYTES, RESULT
from langlauf.bench.crowd import Lived
from langlauf.bench.figures import History, Http, JobCost, Polls, Report, Spread, StoreCost, median_store_cost, spread
from langlauf.bench.fill import Filling, fill
from langlauf.bench.lifecycle import measure_lifecycle
from langlauf.bench.polls import ratios_of
from langlauf.bench.report import lines_of
from langlauf.bench.work import new_job
from langlauf.cli.main import main
from langlauf.clock import SystemClock
from langlauf.store.sqlite.connection import migrate, open_connection

FEW = ("bench", "--only", "lifecycle", "--jobs", "4", "--concurrency", "2", "--rounds", "1")
#: names in the report, and the figures of a history that they come from
RATIOS = {
    "status": "status_us",
    "status_read": "status_read_us",
    "status_at_once": "status_at_once_us",
    "status_first": "status_first_us",
    "first_page": "first_page_us",
    "submit_and_claim": "submit_and_claim_us",
}


def test_a_run_prints_json_and_removes_its_stores(tmp_path: Path) -> None:
    """What was asked for has its figures, what was not is null; nothing is left in the folder."""
    done = CliRunner().invoke(main, [*FEW, "--json", "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == []
    report = msgspec.json.decode(done.stdout)
    assert (report["http"], report["polls"], report["postgres"]) == (None, None, None)
    found = report["lifecycle"]
    assert (found["jobs"], found["concurrency"], found["processes"], len(found["rounds"])) == (4, 2, 1, 1)
    assert 1 <= found["mean_batch"] <= 4 * 2
    assert_ratio(found)
    for name in ("submit_ms", "submit_to_start_ms"):
        assert 0 < found[name]["p50"] <= found[name]["p99"]


def assert_ratio(found: dict[str, Any]) -> None:
    """The ratio is that of the two rates beside it; all three are rounded."""
    expected = found["jobs_per_second"] / found["ceiling_jobs_per_second"]
    assert found["ratio_to_ceiling"] == pytest.approx(expected, rel=0.02, abs=0.001)


def test_json_goes_to_a_file_beside_the_table(tmp_path: Path) -> None:
    """With a name the JSON is written there, and the table is printed all the same; the stores are gone."""
    file = tmp_path / "found.json"
    done = CliRunner().invoke(main, (*FEW, "--json", str(file), "--markdown", "--folder", str(tmp_path)))
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == [file]
    ratio = msgspec.json.decode(file.read_bytes())["lifecycle"]["ratio_to_ceiling"]
    assert f"| store, 2 jobs at once: ratio to the raw ceiling | {ratio:.2f} |" in done.stdout


def test_stores_are_removed_when_a_measurement_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is reported, and the folder is as empty as before."""

    def broken(path: Path, jobs: int, group: int) -> float:
        raise OSError("the disk is full")

    monkeypatch.setattr("langlauf.bench.lifecycle.measure_ceiling", broken)
    done = CliRunner().invoke(main, [*FEW, "--folder", str(tmp_path)])
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "the disk is full" in done.output


class Given:
    """Rounds with known figures; the first only warms up."""

    processes = 1

    def __init__(self, *rounds: tuple[float, float]) -> None:
        self._rounds = rounds
        self.asked: list[tuple[int, int]] = []
        self.in_flight: set[int] = set()

    def live(self, number: int, jobs: int, concurrency: int) -> tuple[Lived, JobCost | None]:
        self.in_flight.add(concurrency)
        seconds = jobs / self._rounds[number][0]
        lived = Lived(jobs=jobs, seconds=seconds, transactions=jobs // 5, submits=[0.001] * jobs, starts=[0.002] * jobs)
        return lived, None

    def ceiling(self, number: int, jobs: int, group: int) -> tuple[float, JobCost | None]:
        self.asked.append((jobs, group))
        return self._rounds[number][1], None


def test_the_ratio_is_that_of_the_medians_without_the_warm_up() -> None:
    """Each ceiling has the jobs of its round, in groups as large as the store's transactions were."""
    place = Given((1.0, 1_000.0), (100.0, 400.0), (300.0, 500.0), (200.0, 900.0))
    steps: list[tuple[int, int]] = []
    found = measure_lifecycle(
        place, jobs=100, concurrency=8, rounds=3, watch=lambda done, total: steps.append((done, total))
    )
    assert (found.jobs_per_second, found.ceiling_jobs_per_second, found.ratio_to_ceiling) == (200.0, 500.0, 0.4)
    assert (found.submit_ms, found.submit_to_start_ms) == (Spread(1.0, 1.0), Spread(2.0, 2.0))
    assert (place.asked, place.in_flight) == ([(25, 20), *[(100, 20)] * 3], {8})
    assert steps == [(done, 4) for done in range(5)]


def test_a_spread_is_the_middle_and_the_worst_hundredth() -> None:
    """Durations in seconds become milliseconds, in whatever order they came."""
    assert spread([number / 1_000 for number in range(100, -1, -1)]) == Spread(50.0, 99.0)
    assert spread([0.25]) == Spread(250.0, 250.0)


def history(finished: int, *figures: float) -> History:
    """A history with these figures, in the order of `RATIOS`."""
    named = dict(zip(RATIOS.values(), figures, strict=True))
    return History(finished_jobs=finished, fill_seconds=1.5, file_bytes=2_000_000, **named)


SMALL, LARGE = history(10, 100, 10, 20, 40, 50, 80), history(1_000, 150, 20, 60, 160, 250, 480)


def test_ratios_are_those_of_the_large_history_to_the_small_one() -> None:
    """Each figure is compared with itself, and 1 means that the history costs nothing."""
    assert msgspec.to_builtins(ratios_of(SMALL, LARGE)) == dict(
        zip(RATIOS, (1.5, 2.0, 3.0, 4.0, 5.0, 6.0), strict=True)
    )
    assert set(msgspec.to_builtins(ratios_of(SMALL, SMALL)).values()) == {1.0}


def test_the_table_shows_the_figures_of_the_report() -> None:
    """Each with its own name; a ratio to a ceiling that was not measured is said to be none."""
    took = Spread(1.25, 9.5)
    http = Http(
        jobs=9, clients=3, jobs_per_second=1_234.5, ratio_to_ceiling=None, submit_ms=took, submit_to_start_ms=took,
        unloaded_p50_ms=4.5,
    )  # fmt: skip
    polls = Polls(histories=[SMALL, LARGE], ratios=ratios_of(SMALL, LARGE))
    report = Report(measured_at="2026-01-01T00:00:00Z", python="3", sqlite="3", cores=2, http=http, polls=polls)
    shown = {what: figure for what, figure, _ in lines_of(report)}
    assert shown["HTTP, 3 clients: ratio to the raw ceiling"] == "not measured"
    assert shown["HTTP, 3 clients: jobs/s"] == "1,234"
    assert shown["HTTP, 3 clients: submit p50 / p99, ms"] == "1.2 / 9.5"
    assert shown["status poll, 10 and 1,000 finished jobs: ratio"] == "1.50"
    assert shown["submit and claim, µs"] == "80 / 480"
    assert shown["filling the stores"] == "10: 1.5 s, 2 MB; 1,000: 1.5 s, 2 MB"
    assert not [what for what in shown if what.startswith("store,")]


@pytest.mark.parametrize("sizes", ["", "0", "many", "10,-1"])
def test_impossible_histories_are_refused(sizes: str) -> None:
    """Numbers over 0 with commas between them; anything else is a mistake of usage."""
    done = CliRunner().invoke(main, ["bench", "--history", sizes])
    assert done.exit_code == 2
    assert "numbers over 0" in done.output


@pytest.mark.parametrize("flag", ["--jobs", "--concurrency", "--clients", "--rounds"])
def test_nothing_is_measured_with_none_of_something(flag: str) -> None:
    """Every count is 1 or more."""
    done = CliRunner().invoke(main, ["bench", flag, "0"])
    assert done.exit_code == 2
    assert "0 is not in the range x>=1" in done.output


def test_a_complete_run_measures_everything(tmp_path: Path) -> None:
    """Cost, store, HTTP, polls and queues, each with its sizes and ratios; servers and stores are gone afterwards."""
    sizes = ["--jobs", "200", "--rounds", "1", "--history", "50,200", "--backlog", "60,300"]
    done = CliRunner().invoke(main, ["bench", *sizes, "--json", "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == []
    report = msgspec.json.decode(done.stdout)
    http, polls = report["http"], report["polls"]
    assert (http["jobs"], http["clients"], report["lifecycle"]["concurrency"]) == (200, 32, 64)
    assert_ratio({**http, "ceiling_jobs_per_second": report["lifecycle"]["ceiling_jobs_per_second"]})
    assert [one["finished_jobs"] for one in polls["histories"]] == [50, 200]
    small, large = (msgspec.convert(one, History) for one in polls["histories"])
    assert polls["ratios"] == msgspec.to_builtins(ratios_of(small, large))
    assert_cost(report["cost"])
    assert report["cost"]["hot_shares"] is None
    assert [one["what"] for one in report["compared"]["backlog"]] == [
        "claim of one job",
        "claim of 50 jobs, each",
        "submission of one job",
    ]
    for one in report["compared"]["backlog"]:
        assert one["beside"] == ["60 waiting", "300 waiting"]
        assert one["ratio"] == pytest.approx(one["figures"][1] / one["figures"][0], abs=0.001)
        assert one["processor_ratio"] > 0


def assert_cost(found: dict[str, Any]) -> None:
    """Full batches, the parts of the processor time, and as many rows and bytes as a job cannot do without."""
    assert (found["jobs"], found["batch"], found["payload_bytes"]) == (224, BATCH, PAYLOAD_BYTES)
    assert list(found["stages_us"]) == ["submit", "claim", "complete"]
    assert all(used > 0 for used in found["stages_us"].values())
    assert found["processor_us"] == pytest.approx(sum(found["stages_us"].values()), abs=0.01)
    # The job three times, its three events and its result; what belongs to a batch is divided by its jobs.
    assert 7 <= found["row_writes"] < 8
    assert found["bytes_per_job"] > 2 * PAYLOAD_BYTES


def test_input_and_result_of_the_cost_have_their_size() -> None:
    """Both are JSON; without a size an input is as small as it can be."""
    payload = new_job(SystemClock(), payload_bytes=PAYLOAD_BYTES).payload
    assert (len(payload), len(RESULT)) == (PAYLOAD_BYTES, PAYLOAD_BYTES)
    assert "Bahnhofstrasse" in msgspec.json.decode(payload)["query"]
    assert len(new_job(SystemClock()).payload) < 100
    assert set(msgspec.json.decode(RESULT)) == {"answer"}


def store_cost(scale: float, hot: dict[str, float] | None = None) -> StoreCost:
    """Figures that are that many times as large as those of 1."""
    stages = {"submit": 10 * scale, "claim": 20 * scale, "complete": 30 * scale}
    return StoreCost(
        jobs=64, batch=32, payload_bytes=300, processor_us=60 * scale, stages_us=stages, row_writes=7 * scale,
        bytes_per_job=1_500 * scale, hot_shares=hot,
    )  # fmt: skip


def test_a_cost_is_the_middle_of_its_rounds() -> None:
    """Each figure by itself; what one round could not tell is not told."""
    middle = median_store_cost([store_cost(3), store_cost(1), store_cost(2)])
    assert middle == store_cost(2)
    blind = msgspec.structs.replace(store_cost(1), processor_us=None)
    assert median_store_cost([store_cost(3), blind]).processor_us is None
    shares = [store_cost(1, {"renewals": share}) for share in (0.5, 0.9, 1.0)]
    assert median_store_cost(shares).hot_shares == {"renewals": 0.9}


def test_the_table_shows_the_cost() -> None:
    """One line for each figure; what SQLite has not is left out."""
    base = Report(measured_at="2026-01-01T00:00:00Z", python="3", sqlite="3", cores=2)
    shown = {what: (figure, how) for what, figure, how in lines_of(msgspec.structs.replace(base, cost=store_cost(2)))}
    assert shown == {
        "a job in batches of 32: processor time of the store, µs": ("120", "submit 20, claim 40, complete 60"),
        "a job in batches of 32: rows written": ("14.0", "300 bytes of input and of result, no partial"),
        "a job that has ended: bytes, with all indexes": ("3,000", "300 bytes of input and of result, no partial"),
    }
    server = msgspec.structs.replace(
        store_cost(1, {"renewals": 0.955}), processor_us=None, background_us=5.0, packed_bytes_per_job=1_000.0
    )
    figures = {what: figure for what, figure, _ in lines_of(msgspec.structs.replace(base, cost=server))}
    assert figures["a job in batches of 32: processor time of the store, µs"] == "not here"
    assert figures["a job in batches of 32: processor time of the server's other processes, µs"] == "5"
    assert figures["a job that has ended: bytes, packed"] == "1,000"
    assert figures["renewals: share of updates that enter nothing in an index"] == "0.95"


@pytest.mark.parametrize("finished", [True, False])
def test_a_filled_store_has_what_it_should(tmp_path: Path, finished: bool) -> None:
    """Jobs in their lanes, each with its own id and rows; counts that fit; and the schema as it was."""
    path = tmp_path / "filled.db"
    filling = Filling(jobs=61, orgs=4, analyses=3, finished=finished)
    fill(path, filling, lambda _, __: None)
    fresh = open_connection(str(tmp_path / "fresh.db"))
    connection = open_connection(str(path))
    try:
        migrate(fresh)
        made = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
        assert connection.execute(made).fetchall() == fresh.execute(made).fetchall()
        status = "completed" if finished else "queued"
        assert connection.execute(
            "SELECT count(*), count(DISTINCT job_id), count(DISTINCT org_id), count(DISTINCT analysis) FROM jobs "
            "WHERE status = ?",
            (status,),
        ).fetchall() == [(61, 61, 4, 3)]
        assert connection.execute("SELECT count(*), count(DISTINCT job_id) FROM job_events").fetchall() == [
            (61 * (4 if finished else 1), 61)
        ]
        assert connection.execute("SELECT count(*) FROM job_results").get == (2 * 61 if finished else 0)
        assert finished or connection.execute(
            "SELECT org_id, analysis, waiting FROM lanes ORDER BY 1, 2"
        ).fetchall() == (
            connection.execute("SELECT org_id, analysis, count(*) FROM jobs GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
        )
        waiting = connection.execute("SELECT sum(waiting) FROM waiting_counts").get
        assert waiting == (0 if finished else 61)
        assert connection.execute("SELECT count(*) FROM lanes WHERE waiting > 0").get == (0 if finished else 12)
    finally:
        connection.close()
        fresh.close()
