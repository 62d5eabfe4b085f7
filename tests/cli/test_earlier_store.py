"""A JSON store of the earlier system under commands that know no application: a server names its jobs afterwards."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from langlauf.bootstrap import open_store
from langlauf.cli.main import main
from langlauf.cli.options import ExitCode
from langlauf.compat.v1_records import UNNAMED
from langlauf.domain.job import payload_hash
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.tools.drivers import copy_store
from langlauf.store.tools.location import SqliteLocation
from tests.support.stores import JobFactory, SetClock, query
from tests.support.v1_store import FULL, earlier_store
from tests.support.verified_file import verify_file

COMMANDS = [
    ("migrate", "--store"),
    ("cleanup", "--store-file"),
    ("sweep", "--store"),
    ("keys", "list", "--store"),
]


def run(*words: object) -> Result:
    """Runs a command that ends well."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def serve(path: Path, analysis: str) -> None:
    """Opens the store as a server does whose default is this analysis."""

    async def opened() -> None:
        store = await open_store(load_settings({}, store=str(path)), Hints(), analysis)
        await store.close()

    asyncio.run(opened())


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a job that waits, one that was under way, and one that has ended."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "store.v1.json"
    path.write_text(json.dumps(FULL))
    return path


def analyses(path: Path) -> set[Any]:
    """The names that jobs have."""
    return {name for (name,) in query(path.with_suffix(".db"), "SELECT analysis FROM jobs")}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_command_leaves_the_analysis_to_the_server(earlier: Path, command: tuple[str, ...]) -> None:
    """The jobs are imported and have no name, until a server brings one: then they are as if it had imported them."""
    run(*command, earlier)
    db = earlier.with_suffix(".db")
    assert analyses(earlier) == {UNNAMED}
    assert verify_file(str(db)) == []
    serve(earlier, "survey")
    assert analyses(earlier) == {"survey"}
    assert verify_file(str(db)) == []
    assert query(db, "SELECT analysis, waiting, due_at IS NOT NULL FROM lanes") == [("survey", 1, 1)]
    assert query(db, "SELECT analysis, waiting FROM waiting_counts WHERE waiting > 0") == [("survey", 1)]
    hashes = query(db, "SELECT request_payload_hash, payload FROM jobs JOIN job_inputs USING (org_id, job_id)")
    assert all(found == payload_hash("survey", str(payload)) for found, payload in hashes)


def test_named_jobs_go_on(earlier: Path) -> None:
    """Both the one that waited and the one that had lost its worker are claimed under the name of the application."""
    run("migrate", "--store", earlier)
    serve(earlier, "survey")

    async def scene() -> set[str]:
        store = await open_store(load_settings({}, store=str(earlier)), Hints())
        try:
            make = JobFactory(store, SetClock(store.clock.now()), "default-org")
            view = await store.tenant("default-org").job("waits")
            assert view is not None
            return {(await make.claim(view.job)).lease.job_id for _ in range(2)}
        finally:
            await store.close()

    assert asyncio.run(scene()) == {"waits", "alive"}


def test_the_first_server_names_them_for_good(earlier: Path) -> None:
    """A second application finds nothing to name, and a job that says its analysis keeps it."""
    document = earlier_store(status="queued") | {"jobs": {"a": {"status": "queued", "analysis": "own"}, **FULL["jobs"]}}
    earlier.write_text(json.dumps(document))
    run("migrate", "--store", earlier)
    assert analyses(earlier) == {UNNAMED, "own"}
    serve(earlier, "survey")
    serve(earlier, "other")
    assert analyses(earlier) == {"survey", "own"}


def test_an_export_before_any_server_leaves_the_name_open(earlier: Path, tmp_path: Path) -> None:
    """Its jobs are as nameless as they came, so that the next import asks again."""
    run("migrate", "--store", earlier)
    out = tmp_path / "out.json"
    run("export-store", out, "--store", earlier.with_suffix(".db"))
    run("import-store", out, "--store", tmp_path / "copy.db", "--analysis", "survey")
    assert {name for (name,) in query(tmp_path / "copy.db", "SELECT analysis FROM jobs")} == {"survey"}


def test_nameless_jobs_are_not_copied(earlier: Path, tmp_path: Path) -> None:
    """No server would name them in the copy: the command says what to do first."""
    run("migrate", "--store", earlier)
    source, target = earlier.with_suffix(".db"), tmp_path / "copy.db"
    refused = CliRunner().invoke(main, ["copy-store", str(source), str(target)])
    assert refused.exit_code == ExitCode.CONFLICT
    assert "belong to no analysis yet" in refused.stderr
    assert not target.exists()
    serve(earlier, "survey")
    copied = copy_store(SqliteLocation(str(source)), SqliteLocation(str(target)), running=True, watch=lambda *_: None)
    assert copied.complete
