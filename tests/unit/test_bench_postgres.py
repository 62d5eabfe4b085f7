"""A tiny run of the benchmark on PostgreSQL: it measures everything it promises, and leaves nothing behind."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from langlauf.bench.plan import ON_POSTGRES
from langlauf.cli.main import main
from tests.support.postgres import fetch, own_server

SIZES = ("--jobs", "60", "--rounds", "1", "--concurrency", "16", "--orgs", "3")
BESIDE = ("--history", "20,60", "--backlog", "60,120", "--taken", "100")


def _databases(server: str) -> set[str]:
    rows = fetch(server, "SELECT datname FROM pg_database WHERE starts_with(datname, 'langlauf_bench_')")
    return {str(row["datname"]) for row in rows}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JSON of one run, on a server that nobody else uses: what is left there is of this run."""
    file = tmp_path_factory.mktemp("bench") / "found.json"
    with own_server(settings={"fsync": "off"}) as server:
        where = ["--store", server.url()]
        done = CliRunner().invoke(main, ["bench", *where, *SIZES, *BESIDE, "--json", str(file), "--markdown"])
        assert done.exit_code == 0, done.output
        assert _databases(server.url()) == set(), "its databases are dropped"
    assert "| store, 16 jobs at once: ratio to the raw ceiling |" in done.stdout
    return file


@pytest.fixture(scope="module")
def report(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    return found


def test_the_cost_of_a_job_is_that_of_the_store_itself(report: dict[str, Any]) -> None:
    found = report["cost"]
    assert (found["jobs"], found["batch"]) == (64, 32)
    assert list(found["stages_us"]) == ["submit", "claim", "complete"]
    assert found["processor_us"] == pytest.approx(sum(found["stages_us"].values()), abs=0.01)
    assert found["background_us"] >= 0
    # The job three times, its three events and its result; what belongs to a batch is divided by its jobs.
    assert 7 <= found["row_writes"] < 8
    assert 2 * found["payload_bytes"] < found["packed_bytes_per_job"] <= found["bytes_per_job"]


def test_heartbeats_progress_and_partials_enter_nothing_in_an_index(report: dict[str, Any]) -> None:
    """But for the first partial of a job, which changes its state, and where a page has no room for another version."""
    shares = report["cost"]["hot_shares"]
    assert shares.pop("first partials") < 0.1
    assert list(shares) == ["renewals", "progress", "later partials"]
    assert all(share > 0.8 for share in shares.values()), shares


def test_the_store_is_measured_beside_bare_statements(report: dict[str, Any]) -> None:
    found = report["lifecycle"]
    assert (found["jobs"], found["concurrency"], found["processes"]) == (60, 16, 1)
    # A claim that goes with submissions shares their transaction.
    assert 1 <= found["mean_batch"] <= 2 * 16
    assert found["ratio_to_ceiling"] > 0
    # The server is here, so what its processes used can be read.
    assert {"submit", "claim", "record"} <= set(found["cost"]["stages_us"])
    assert found["cost"]["client_us"] > 0
    assert found["ceiling_cost"]["database_us"] > 0


def test_processes_share_the_jobs_in_flight(report: dict[str, Any]) -> None:
    assert [one["processes"] for one in report["hosts"]] == [1, 2, 4]
    assert report["hosts"][0]["ratio"] == 1
    assert report["hosts"][0]["mean_batch"] > report["hosts"][-1]["mean_batch"]


@pytest.mark.parametrize(
    ("group", "beside", "what"),
    [
        (
            "backlog",
            ["60 waiting", "120 waiting"],
            ["claim of one job", "claim of 50 jobs, each", "submission of one job"],
        ),
        ("held back", ["nothing held back", "24 held back by a limit"], ["claim of one job", "claim of 50 jobs, each"]),
        ("orgs", ["10 orgs", "60 orgs"], ["claim of one job", "claim of 50 jobs, each", "submission of one job"]),
        ("history", ["20 finished", "60 finished"], ["status of a job", "submission of one job"]),
        (
            "dead",
            ["nothing taken", "100 taken and not vacuumed"],
            ["claim of one job", "first entry of the index, as a bare queue asks"],
        ),
    ],
)
def test_databases_are_compared(report: dict[str, Any], group: str, beside: list[str], what: list[str]) -> None:
    found = report["compared"][group]
    assert [one["what"] for one in found] == what
    for one in found:
        assert one["beside"] == beside
        assert all(figure > 0 for figure in one["figures"])
        assert one["ratio"] == pytest.approx(one["figures"][1] / one["figures"][0], abs=0.001)
        assert one["processor_ratio"] > 0


def test_notify_is_measured_against_commits_without(report: dict[str, Any]) -> None:
    assert report["notify"]["each_commit_ratio"] > 0
    assert report["notify"]["gathered_ratio"] > 0


def test_the_model_is_held_against_the_lifecycle(report: dict[str, Any]) -> None:
    found = report["capacity"]
    assert set(found["costs"]["stages"]) == {"submit", "claim", "partial", "complete", "renew"}
    assert found["costs"]["disk"]["per_event"] > 0
    assert found["costs"]["connections_per_host"] >= 4
    assert len(found["predictions"]) == 3
    for one in found["predictions"]:
        assert one["ratio"] == pytest.approx(one["predicted"] / one["measured"], abs=0.01)


def test_capacity_is_computed_from_a_run(file: Path, tmp_path: Path) -> None:
    asked = msgspec.json.decode(file.read_bytes()) | {"need": {"jobs_per_second": 250, "hosts": 4}}
    mine = tmp_path / "mine.json"
    mine.write_bytes(msgspec.json.encode(asked))
    done = CliRunner().invoke(main, ["bench", "--capacity", str(mine), "--markdown"])
    assert done.exit_code == 0, done.output
    assert "| jobs/s asked for | 250 | 4 process(es)" in done.stdout


def test_capacity_needs_a_run_that_measured_it(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"capacity": null}')
    done = CliRunner().invoke(main, ["bench", "--capacity", str(other)])
    assert done.exit_code == 1
    assert "is not the JSON of a run that measured the capacity" in done.output


def test_each_store_has_its_measurements() -> None:
    on_sqlite = CliRunner().invoke(main, ["bench", "--only", "orgs"])
    on_postgres = CliRunner().invoke(main, ["bench", "--store", "postgresql://localhost/", "--only", "http"])
    elsewhere = CliRunner().invoke(main, ["bench", "--store", "jobs.db"])
    assert (on_sqlite.exit_code, on_postgres.exit_code, elsewhere.exit_code) == (2, 2, 2)
    assert "orgs" in ON_POSTGRES


def test_a_server_that_is_not_there_is_told() -> None:
    done = CliRunner().invoke(main, ["bench", "--store", "postgresql://nobody@127.0.0.1:1/none", "--only", "notify"])
    assert done.exit_code == 1
    assert "no connection to the database" in done.output
