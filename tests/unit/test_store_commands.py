"""The commands that work on a store without a server: what they print, what they write, and how they end."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.maintenance import verify
from langlauf.cli.removal import cleanup
from langlauf.cli.transfer import export_store, import_store
from langlauf.clock import SystemClock
from langlauf.domain.instant import after
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import DAY, JobFactory, SetClock, play, query

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "run_async_retention_cleanup.py"
EARLIER = ROOT / "tests" / "support" / "earlier_store.json"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the machine and no store of the working folder has a say."""
    for name in list(os.environ):
        if name.startswith(("LANGLAUF_", "ASYNC_JOB")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return iter([None])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store whose jobs ended eight days ago by the clock of this machine."""
    path = tmp_path / "jobs.db"

    async def scene(store: SqliteStore, make: JobFactory, clock: SetClock) -> None:
        clock.time = after(SystemClock().now(), -8 * DAY)
        await make.completed(1)
        await make.failed()

    play(path, scene)
    return path


def run(command: object, *arguments: object) -> Result:
    """Runs a command as a person would."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])  # type: ignore[arg-type]


def removed(path: Path) -> tuple[object, ...]:
    """How many snapshots and events are left."""
    sql = "SELECT (SELECT count(*) FROM job_results WHERE removed_at IS NULL), (SELECT count(*) FROM job_events)"
    return query(path, sql)[0]


def test_cleanup_counts_and_then_removes(old: Path, tmp_path: Path) -> None:
    """A dry run prints what the real run removes; the report is also written where it is asked for."""
    dry = run(cleanup, "--store-file", old, "--dry-run", "--json")
    assert dry.exit_code == 0
    assert removed(old) == (2, 9)
    report = tmp_path / "made" / "for" / "it.json"
    real = run(cleanup, "--store-file", old, "--json", "--output-json", report)
    assert json.loads(real.stdout) == json.loads(dry.stdout) | {"dry_run": False} == json.loads(report.read_text())
    assert json.loads(real.stdout)["results"]["delete_count"] == 2
    assert removed(old) == (0, 0)


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (["--disable-results-retention"], (2, 0)),
        (["--disable-events-retention"], (0, 9)),
        (["--results-ttl-seconds", "9d", "--events-ttl-seconds", "777600"], (2, 9)),
        (["--events-ttl-seconds", "9d"], (0, 9)),
    ],
)
def test_cleanup_obeys_its_flags(old: Path, flags: list[str], left: tuple[int, int]) -> None:
    """A flag for results or events decides about them alone."""
    assert run(cleanup, "--store-file", old, *flags).exit_code == 0
    assert removed(old) == left


def test_a_flag_goes_before_the_environment(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention and store come from the environment where no flag says otherwise."""
    monkeypatch.setenv("ASYNC_JOB_EVENTS_RETENTION_SECONDS", "9d")
    monkeypatch.setenv("ASYNC_JOBS_STORE_FILE", str(old))
    assert run(cleanup).exit_code == 0
    assert removed(old) == (0, 9)
    monkeypatch.setenv("ASYNC_JOBS_STORE_FILE", "elsewhere.db")
    assert run(cleanup, "--store-file", old, "--events-ttl-seconds", "8").exit_code == 0
    assert removed(old) == (0, 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--results-ttl-seconds", "soon"], "--results-ttl-seconds 'soon'"),
        (["--events-ttl-seconds", "-5"], "--events-ttl-seconds '-5'"),
        (["--results-ttl-seconds", "5", "--disable-results-retention"], "give one of them"),
        (["--store-file", "missing.db"], "there is no store at missing.db"),
        (["--store-file", "mysql://db"], "is not supported"),
    ],
)
def test_cleanup_refuses_a_bad_value(flags: list[str], message: str, tmp_path: Path) -> None:
    """A bad value ends the program with exit code 1 and a message on standard error; nothing is made."""
    result = run(cleanup, *flags)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_cleanup_of_nothing_is_nothing(tmp_path: Path) -> None:
    """Where the default store was never made there is nothing to clean, and none is made."""
    result = run(cleanup, "--json")
    assert json.loads(result.stdout)["terminal_job_count"] == 0
    assert list(tmp_path.iterdir()) == []


def test_cleanup_knows_a_store_of_the_earlier_system(tmp_path: Path) -> None:
    """`X.json` means its `X.db`: counting leaves nothing behind, cleaning imports first."""
    earlier = tmp_path / "store.v1.json"
    earlier.write_bytes(EARLIER.read_bytes())
    dry = json.loads(run(cleanup, "--store-file", earlier, "--dry-run", "--json").stdout)
    assert [file.name for file in tmp_path.iterdir()] == ["store.v1.json"]
    real = json.loads(run(cleanup, "--store-file", earlier, "--json").stdout)
    assert real == dry | {"dry_run": False}
    assert (tmp_path / "store.v1.db").exists()
    assert earlier.read_bytes() == EARLIER.read_bytes()


def start_script(*arguments: str, python: str = sys.executable, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the script as a cron job would."""
    known = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([python, str(SCRIPT), *arguments], capture_output=True, text=True, env=known, check=False)


def test_the_script_prints_json(old: Path) -> None:
    """The script gives the report as JSON and nothing else on standard output."""
    done = start_script("--dry-run", "--store-file", str(old), PYTHONPATH=str(ROOT / "src"))
    assert (done.returncode, json.loads(done.stdout)["dry_run"]) == (0, True)
    bad = start_script("--results-ttl-seconds", "x", PYTHONPATH=str(ROOT / "src"))
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "--results-ttl-seconds 'x'" in bad.stderr


def test_the_script_says_what_it_needs(tmp_path: Path) -> None:
    """Without the package and without the project's own Python, the script says how to start it."""
    alone = tmp_path / "scripts" / SCRIPT.name
    alone.parent.mkdir()
    alone.write_bytes(SCRIPT.read_bytes())
    done = subprocess.run([sys.executable, "-S", "-I", str(alone)], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 1
    assert "make run" in done.stderr


def test_the_script_finds_the_projects_python(tmp_path: Path) -> None:
    """Without the package, the script goes on in the project's own Python, with the same arguments."""
    alone = tmp_path / "scripts" / SCRIPT.name
    alone.parent.mkdir()
    alone.write_bytes(SCRIPT.read_bytes())
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text('#!/bin/sh\necho "own python: $*"\n')
    own.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-S", "-I", str(alone), "--dry-run"], capture_output=True, text=True, check=False, env={}
    )
    assert done.stdout == f"own python: {alone} --dry-run\n"


def test_verify_tells_by_its_exit_code(old: Path) -> None:
    """0 for a sound store, 1 with the list for a broken one, 2 where nothing can be said."""
    assert run(verify, "--store", old).exit_code == 0
    sound = run(verify, "--store", old, "--json")
    assert json.loads(sound.stdout)["violations"] == []
    query(old, "UPDATE analyses SET waiting = 7 WHERE analysis = 0")
    broken = run(verify, "--store", f"sqlite:///{old}", "--json")
    assert broken.exit_code == 1
    assert {one["rule"] for one in json.loads(broken.stdout)["violations"]} == {"lane_counts"}
    assert "broken: lane_counts" in run(verify, "--store", old).stdout
    for store in ("missing.db", "memory://", "postgresql://db"):
        assert run(verify, "--store", store).exit_code == 2


def test_a_store_goes_out_and_in(old: Path, tmp_path: Path) -> None:
    """An export is written whole, replaced only by force, and can be imported into another store once."""
    out = tmp_path / "out" / "store.json"
    report = run(export_store, out, "--store", old, "--json")
    assert (report.exit_code, json.loads(report.stdout)["jobs"]) == (0, 2)
    assert json.loads(out.read_text())["schema_version"] == 5
    assert [file.name for file in out.parent.iterdir()] == ["store.json"]
    assert run(export_store, out, "--store", old).exit_code == 1
    assert run(export_store, out, "--store", old, "--force").exit_code == 0
    assert run(export_store, "-", "--store", old).stdout == out.read_text()
    first = run(import_store, out, "--store", "copy.db", "--json")
    assert json.loads(first.stdout)["imported"] is True
    assert json.loads(run(import_store, out, "--store", "copy.db", "--json").stdout)["imported"] is False
    assert run(verify, "--store", "copy.db").exit_code == 0


def test_what_cannot_be_transferred_is_said(tmp_path: Path) -> None:
    """A missing store or file ends with exit code 1, and nothing is made."""
    assert run(export_store, "x.json", "--store", "missing.db").exit_code == 1
    (tmp_path / "no.json").write_text("[]")
    for file in ("missing.json", "no.json"):
        result = run(import_store, file, "--store", "new.db")
        assert result.exit_code == 1
        assert file in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["no.json"]
