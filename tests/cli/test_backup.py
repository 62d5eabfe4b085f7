"""Backup and restore: a copy of a file that is in full use, a kill in the middle, and what is refused."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.client import Client, ClientError
from langlauf.store.sqlite.snapshot import check_file
from langlauf.store.tools import backup
from tests.support.server import command, environment, serving
from tests.support.stores import JobFactory, SetClock, query, with_store
from tests.support.verified_file import verify_file

_CLIENTS = 3
_FORKED = multiprocessing.get_context("fork")


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _back_up_until(step: str, store: Path, target: Path) -> None:
    """In a process of its own: it gets as far as this step."""
    setattr(backup, step, _die)
    backup.back_up(str(store), target, force=True)


def run(*words: str, exit_code: int = 0, **env: str) -> Result:
    """A command; its exit code must be the expected one."""
    result = CliRunner().invoke(main, [*words], env={"LANGLAUF_STORE": None, **env})
    assert result.exit_code == exit_code, result.output
    return result


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a job in every state."""
    path, clock = tmp_path / "store.db", SetClock()
    with_store(path, clock, lambda opened: JobFactory(opened, clock).one_of_each())
    return path


class Crowd:
    """Clients that submit all the time. What was accepted is remembered, in the order of the answers."""

    def __init__(self, url: str) -> None:
        self.accepted: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(_CLIENTS)]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, number: int) -> None:
        """Until so many more jobs were accepted."""
        wanted = len(self.accepted) + number
        while len(self.accepted) < wanted:
            assert any(thread.is_alive() for thread in self._threads), "no thread submits any more"
            self._stop.wait(0.01)

    def _submit(self, number: int) -> None:
        with Client(self._url, f"org-{number}") as client:
            while not self._stop.is_set():
                try:
                    self.accepted.append(client.submit("echo", value=f"{number}-{len(self.accepted)}").job_id)
                except ClientError as error:
                    raise AssertionError(f"a submission was refused: {error}") from error
                self._stop.wait(0.005)  # what was submitted must also be run


def test_a_backup_under_load_has_everything_that_was_accepted_before(tmp_path: Path) -> None:
    """It is made while several clients submit and jobs run; put back, it is sound and runs on to the end."""
    store, copy, back = tmp_path / "store.db", tmp_path / "copy.db", tmp_path / "back.db"
    # What ran while the copy was made runs again in the restored store once its lease is over.
    with serving(store, settings={"LANGLAUF_LEASE_SECONDS": "5"}) as server, Crowd(server.url) as crowd:
        crowd.wait_for(40)
        before = len(crowd.accepted)
        words = command("backup", str(copy), "--store", str(store), "--json")
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
        during = len(crowd.accepted) - before
        crowd.wait_for(10)
        accepted = crowd.accepted[:before]
    assert during > 0, "nothing was submitted while the backup was made"
    report = json.loads(done.stdout)
    assert (report["tables"]["jobs"], report["bytes"]) >= (before, 1)
    assert copy.stat().st_mode & 0o777 == 0o600
    run("restore", str(copy), "--store", str(back))
    assert verify_file(str(back)) == []
    kept = {job_id for (job_id,) in query(back, "SELECT job_id FROM jobs")}
    assert set(accepted) <= kept
    with serving(back) as server, Client(server.url, "org-0") as client:
        for job in [job for job in client.jobs() if job.finished_at is None]:
            client.job(job.job_id).wait(60)
        assert {job.status for job in client.jobs()} == {"completed"}


@pytest.mark.parametrize("step", ["_counts", "_check_copy", "_rename_into_place"])
def test_a_kill_in_the_middle_leaves_no_half_file(store: Path, step: str) -> None:
    """Neither a new name nor an old file is touched until the copy is whole."""
    new, old = store.with_name("new.db"), store.with_name("old.db")
    old.write_text("an older backup")
    for target in (new, old):
        died = _FORKED.Process(target=_back_up_until, args=(step, store, target))
        died.start()
        died.join()
        assert died.exitcode == -signal.SIGKILL
    assert not new.exists()
    assert old.read_text() == "an older backup"
    run("backup", str(new), "--store", str(store))
    assert [one for one in check_file(str(new)) if one.rule == "integrity"] == []


def test_nothing_is_overwritten_unless_it_is_asked_for(store: Path) -> None:
    """Neither a file by a backup nor a store by a restore; a store that was replaced is kept."""
    copy = store.with_name("copy.db")
    run("backup", str(copy), "--store", str(store))
    assert "exists" in run("backup", str(copy), "--store", str(store), exit_code=7).output
    run("backup", str(copy), "--store", str(store), "--force")
    assert "is the store itself" in run("backup", str(store), "--store", str(store), "--force", exit_code=7).output
    before = query(store, "SELECT job_id FROM jobs ORDER BY 1")
    query(store, "UPDATE jobs SET priority_class = 'expedite' WHERE status = 'queued'")
    assert "exists" in run("restore", str(copy), "--store", str(store), exit_code=7).output
    said = run("restore", str(copy), "--store", str(store), "--force", "--json")
    [kept] = store.parent.glob("store.db.before-*[0-9]Z")
    assert json.loads(said.stdout)["kept"] == str(kept)
    assert query(kept, "SELECT count(*) FROM jobs WHERE priority_class = 'expedite'") != [(0,)]
    assert query(store, "SELECT job_id FROM jobs ORDER BY 1") == before
    assert query(store, "SELECT count(*) FROM jobs WHERE priority_class = 'expedite'") == [(0,)]
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_store_that_is_in_use_is_not_replaced(tmp_path: Path) -> None:
    """Not even by force: a server would go on with a file that has no name any more."""
    store, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with serving(store) as server:
        run("backup", str(copy), "--store", str(store))
        said = run("restore", str(copy), "--store", str(store), "--force", exit_code=7)
        assert "is in use" in said.output
        with Client(server.url) as client:
            assert client.submit("echo", value="Bern").result(60)
    assert list(tmp_path.glob("*.before-*")) == []


def _torn(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 8192 * 4096)
        file.write(b"\xa5" * 8192)


def _newer(path: Path) -> None:
    query(path, "PRAGMA user_version = 9999")


def _strange(path: Path) -> None:
    path.unlink()
    query(path, "CREATE TABLE cats (name TEXT)")


def _text(path: Path) -> None:
    path.write_text("no database at all, but a text that is long enough to be one")


def _in_use(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"what is not in the file yet")


@pytest.mark.parametrize(
    ("spoil", "words", "exit_code"),
    [
        (_torn, "damaged", 7),
        (_newer, "use the newer program", 1),
        (_strange, "not a store of this program", 7),
        (_text, "not a SQLite file", 7),
        (_in_use, "no backup", 7),
    ],
)
def test_what_is_no_backup_is_refused(store: Path, spoil: Callable[[Path], Any], words: str, exit_code: int) -> None:
    """Nothing is made of it, and nothing is left behind."""
    copy, back = store.with_name("copy.db"), store.parent / "there" / "back.db"
    run("backup", str(copy), "--store", str(store))
    query(copy, "PRAGMA journal_mode = DELETE")
    spoil(copy)
    assert words in run("restore", str(copy), "--store", str(back), exit_code=exit_code).output
    assert not back.exists()
    assert not back.parent.exists() or list(back.parent.iterdir()) == []


def test_a_damaged_store_is_not_backed_up(store: Path) -> None:
    """A copy of it would be no backup; an older one stays."""
    copy = store.with_name("copy.db")
    copy.write_text("an older backup")
    query(store, "PRAGMA journal_mode = DELETE")
    _torn(store)
    assert "damaged" in run("backup", str(copy), "--store", str(store), "--force", exit_code=7).output
    assert copy.read_text() == "an older backup"
    assert list(store.parent.glob(".*.part")) == []


def test_a_damaged_store_can_be_replaced(store: Path) -> None:
    """That is what a backup is for; the damaged file is kept for inspection."""
    copy = store.with_name("copy.db")
    run("backup", str(copy), "--store", str(store))
    shutil.copy(__file__, store)
    run("restore", str(copy), "--store", str(store), "--force")
    assert query(store, "SELECT count(*) FROM jobs") != [(0,)]
    [kept] = store.parent.glob("store.db.before-*[0-9]Z")
    assert kept.read_bytes() == Path(__file__).read_bytes()


def test_other_stores_have_other_ways(tmp_path: Path) -> None:
    """Said with the command that does it; and where blobs lie elsewhere, that they are to be copied too."""
    file = str(tmp_path / "copy")
    database = "postgresql://app@localhost/jobs"
    assert "pg_dump" in run("backup", file, "--store", database, exit_code=1).output
    (tmp_path / "copy").touch()
    assert "pg_restore" in run("restore", file, "--store", database, exit_code=1).output
    assert "in memory" in run("backup", file, "--store", "memory://", exit_code=1).output
    assert "there is no store" in run("backup", file + "2", "--store", str(tmp_path / "none"), exit_code=1).output
    store = tmp_path / "store.db"
    with_store(store, SetClock(), lambda opened: opened.check())
    said = run("backup", file + "2", "--store", str(store), LANGLAUF_BLOBS=str(tmp_path / "blobs"))
    assert "after this file" in said.output
