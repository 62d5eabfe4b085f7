"""Commands where nothing can be written: what only reads works, and says what it does not see."""

import json
import shutil
import subprocess
from pathlib import Path

import apsw
import pytest

from tests.support.network import check_namespaces
from tests.support.server import command, environment, run_command
from tests.support.stores import JobFactory, SetClock, query, with_store

_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a job in every state, alone in its folder."""
    path, clock = tmp_path / "data" / "store.db", SetClock()
    with_store(path, clock, lambda opened: JobFactory(opened, clock).one_of_each())
    assert [one.name for one in path.parent.iterdir()] == ["store.db"]
    return path


@pytest.fixture
def with_log(store: Path) -> Path:
    """The same, with commits that are only in its log: as if it had been copied out of use."""
    connection = apsw.Connection(str(store))
    connection.execute("INSERT INTO duties VALUES ('sweep', 1, 'host-1')")
    aside = shutil.copytree(store.parent, store.parent.with_name("copy"))
    connection.close()
    (aside / "store.db-shm").unlink()
    return aside / "store.db"


def _unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says it of a read-only mount; SQLite itself could write."""
    monkeypatch.setattr("langlauf.store.sqlite.connection.why_unwritable", lambda _: "mounted read-only")


def test_verify_and_backup_read_a_file_that_lies_alone(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite makes nothing beside it, and nothing was missed."""
    _unwritable(monkeypatch)
    said = run_command("verify", "--store", str(store), "--json")
    assert (said.returncode, json.loads(said.stdout)["unseen"]) == (0, None)
    copied = run_command("backup", str(tmp_path / "copy.db"), "--store", str(store), "--json")
    assert (copied.returncode, json.loads(copied.stdout)["unseen"]) == (0, None)
    # A mount that is really read-only would not take the note of the backup either.
    assert {one.name for one in store.parent.iterdir()} == {"store.db", "store.db.last-backup"}
    assert query(tmp_path / "copy.db", "SELECT count(*) FROM jobs") == query(store, "SELECT count(*) FROM jobs")


def test_a_log_that_is_not_seen_is_told_of(with_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the report and on the terminal."""
    _unwritable(monkeypatch)
    size = Path(f"{with_log}-wal").stat().st_size
    for words in (("verify",), ("backup", str(tmp_path / "copy.db"))):
        said = run_command(*words, "--store", str(with_log))
        assert said.returncode == 0, said.stderr
        assert f"the {size} bytes of commits in it were not seen" in said.stderr


def test_commands_on_a_read_only_mount(store: Path, tmp_path: Path) -> None:
    """Those that read work; `serve` ends at once with the reason and no trace; `doctor` finds it."""
    check_namespaces("--mount")
    env = environment(LANGLAUF_STORE=str(store))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = ["unshare", "--mount", "sh", "-c", _MOUNT, str(store.parent), *command(*words)]
        return subprocess.run(line, env=env, text=True, capture_output=True, check=False, timeout=60)

    assert run("verify").returncode == 0
    assert run("backup", str(tmp_path / "copy.db")).returncode == 0
    served = run("serve", "--port", "0")
    assert (served.returncode, "Traceback" in served.stderr) == (1, False)
    assert "mounted read-only: make the file and its folder writable" in served.stderr
    found = {one["name"]: one for one in json.loads(run("doctor", "--json").stdout)["findings"]}
    assert found["writable"]["level"] == "error"
    assert "mounted read-only" in found["writable"]["seen"]
    assert [one.name for one in store.parent.iterdir()] == ["store.db"]
