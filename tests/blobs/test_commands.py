"""The commands that go over a whole store: export brings blobs back, verify reads each, clean-up removes them."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.maintenance import verify
from langlauf.cli.removal import cleanup
from langlauf.cli.transfer import export_store
from langlauf.clock import SystemClock
from langlauf.domain.instant import after
from langlauf.domain.outcome import Completed
from langlauf.domain.result import RetentionPolicy
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.snapshot import check_file
from tests.blobs.blob_stores import open_with, play_with
from tests.blobs.conftest import Open
from tests.support.stores import DAY, JobFactory, SetClock

LARGE = '{"text":"' + "Zürich " * 50 + '"}'
SMALL = '{"text":"Bern"}'


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine has a say."""
    for name in list(os.environ):
        if name.startswith(("LANGLAUF_", "ASYNC_JOB")):
            monkeypatch.delenv(name)


@pytest.fixture
def old(tmp_path: Path, opened: Open) -> Path:
    """A store with a large and a small result, eight days old by the clock of this machine."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        for result_id, payload in (("large", LARGE), ("small", SMALL)):
            made = await JobFactory(store, clock).running()
            assert await store.record(made.lease, Completed(result_id=result_id, payload=payload))

    path = tmp_path / "jobs.db"
    play_with(path, opened, scene, clock=SetClock(after(SystemClock().now(), -8 * DAY)))
    return path


def run(command: object, *arguments: object) -> Result:
    """Runs a command as a person would."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])  # type: ignore[arg-type]


def _files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.suffix != ".mark"]


def test_an_export_has_every_payload(old: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had never been elsewhere; and none is written where the blobs cannot be found."""
    target = tmp_path / "out.json"
    without = run(export_store, target, "--store", old)
    assert without.exit_code == 1
    assert "LANGLAUF_BLOBS" in without.stderr
    assert not target.exists()
    monkeypatch.setenv("LANGLAUF_BLOBS", place)
    assert run(export_store, target, "--store", old).exit_code == 0
    results = json.loads(target.read_text())["results"]
    assert {key: one["result_payload"] for key, one in results.items()} == {
        "large": json.loads(LARGE),
        "small": json.loads(SMALL),
    }
    assert "blob:" not in target.read_text()


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_an_export_with_a_missing_blob_says_which(
    old: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than leave a hole."""
    monkeypatch.setenv("LANGLAUF_BLOBS", place)
    [file] = _files(tmp_path)
    file.unlink()
    result = run(export_store, tmp_path / "out.json", "--store", old)
    assert result.exit_code == 1
    assert "result large" in result.stderr


def test_verify_reads_every_blob(old: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound where they are; a warning where nobody says where they are; not to be checked where nobody answers."""
    unchecked = run(verify, "--store", old, "--json")
    assert (unchecked.exit_code, [one["rule"] for one in json.loads(unchecked.stdout)["warnings"]]) == (
        0,
        ["blobs_unchecked"],
    )
    monkeypatch.setenv("LANGLAUF_BLOBS", place)
    sound = run(verify, "--store", old, "--json")
    assert (sound.exit_code, json.loads(sound.stdout)["warnings"]) == (0, [])
    monkeypatch.setenv("LANGLAUF_BLOBS", "s3://bucket?endpoint=http://127.0.0.1:9&allow_http=true")
    monkeypatch.setenv("LANGLAUF_LIMITS", "blob_seconds=0.5")
    assert run(verify, "--store", old).exit_code == 2


@pytest.mark.parametrize("place", ["files"], indirect=True)
@pytest.mark.parametrize("how", ["missing", "changed"])
def test_verify_finds_a_lost_blob(
    old: Path, place: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its rule, with the job and the result."""
    monkeypatch.setenv("LANGLAUF_BLOBS", place)
    [file] = _files(tmp_path)
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"X" + file.read_bytes()[1:])
    result = run(verify, "--store", old, "--json")
    assert result.exit_code == 1
    [found] = json.loads(result.stdout)["violations"]
    assert (found["rule"], found["org_id"]) == ("blobs_kept", "org-a")
    assert "result large" in found["evidence"]


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_what_retention_takes_during_a_check_is_not_missed(old: Path, place: str) -> None:
    """A check sees one moment; blobs of that moment may be gone by the time they are read."""

    async def retire() -> None:
        clock = SetClock(SystemClock().now())
        store = await open_with(old, clock, FileBlobs(Path(place)))
        policy = RetentionPolicy(final_results=DAY, partial_results=DAY, events=None, jobs=None)
        assert (await store.retire(policy, dry_run=False)).results.delete_count == 2
        await store.close()

    def retire_meanwhile(what: str, done: int, total: int) -> None:
        if what == "blobs_kept":
            asyncio.run(retire())

    with BlockingPayloads(FileBlobs(Path(place)), seconds=10) as payloads:
        assert list(check_file(str(old), watch=retire_meanwhile, payloads=payloads)) == []


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_clean_up_removes_blobs(old: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a dry run, not from another store, and not where nobody says where they are."""
    monkeypatch.setenv("LANGLAUF_BLOBS", place)
    monkeypatch.chdir(tmp_path)
    assert run(cleanup, "--store-file", old).exit_code == 0
    assert len(_files(tmp_path)) == 1  # it is young
    monkeypatch.setenv("LANGLAUF_LIMITS", "blob_garbage_age=0")
    assert run(cleanup, "--store-file", old, "--dry-run").exit_code == 0
    assert run(cleanup).exit_code == 0
    assert len(_files(tmp_path)) == 1
    assert run(cleanup, "--store-file", old).exit_code == 0
    assert _files(tmp_path) == []
    assert run(verify, "--store", old).exit_code == 0


def test_a_bad_place_stops_each_command(tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same words as the server."""
    monkeypatch.setenv("LANGLAUF_BLOBS", "ftp://host/x")
    for command, arguments, code in (
        (cleanup, ("--store-file", old), 1),
        (verify, ("--store", old), 2),
        (export_store, (tmp_path / "out.json", "--store", old), 1),
    ):
        result = run(command, *arguments)
        assert (result.exit_code, "ftp:// is not supported" in result.stderr) == (code, True)
