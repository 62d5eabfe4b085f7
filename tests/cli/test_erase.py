"""`langlauf erase` and `export-store --org`, beside a server that goes on: what is asked, shown and left."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.clock import new_id
from tests.support.keys import make_key
from tests.support.live import GATES, Live, live

BLOBS = "LANGLAUF_BLOBS"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A server whose larger results are blobs."""
    blobs = {BLOBS: str(tmp_path / "blobs"), "LANGLAUF_LIMITS": "inline_result=20"}
    for name, value in blobs.items():
        monkeypatch.setenv(name, value)
    with live(tmp_path, **blobs) as running:
        yield running


def run(folder: Path, *words: str, exit_code: int = 0) -> Result:
    """A command on the store of the server."""
    result = CliRunner().invoke(main, [*words, "--store", str(folder / "store.db")])
    assert result.exit_code == exit_code, result.output
    return result


def test_an_org_is_erased_beside_a_server(server: Live, tmp_path: Path) -> None:
    """Shown first, refused without --yes, then gone with what ran; another org and the server go on."""
    for org in ("org-a", "org-b"):
        server.wait(server.submit("echo", org, query="Bern, a longer text")["job_id"], org)
    gate = new_id()
    running = server.submit("gated", "org-a", gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    make_key(tmp_path / "store.db", "org-a", name="nightly import of Ann")
    file = tmp_path / "org-a.json"
    run(tmp_path, "export-store", "--org", "org-a", str(file))
    document = json.loads(file.read_text("utf-8"))
    assert running in document["jobs"]
    assert [one["name"] for one in document["also"]["api_keys"]] == ["nightly import of Ann"]
    assert "Bern, a longer text" in json.dumps(document["results"])
    asked = run(tmp_path, "erase", "--org", "org-a", exit_code=1)
    assert "give --yes" in asked.output
    assert "job_results" in asked.stdout
    dry = json.loads(run(tmp_path, "erase", "--org", "org-a", "--dry-run", "--json").stdout)
    assert dry["rows"]["jobs"] == 2
    assert len(list((tmp_path / "blobs").rglob("*/org-a/*/*"))) == 1
    done = json.loads(run(tmp_path, "erase", "--org", "org-a", "--yes", "--wait", "10", "--json").stdout)
    assert (done["removed"], done["blobs"], done["keys_kept"]) == (
        {table: count for table, count in dry["rows"].items() if table != "api_keys"},
        1,
        1,
    )
    GATES.open(gate)
    assert list((tmp_path / "blobs").rglob("*/org-a/*/*")) == []
    assert len(list((tmp_path / "blobs").rglob("*/org-b/*/*"))) == 1
    again = run(tmp_path, "erase", "--org", "org-a", "--yes")
    assert "0 rows and 0 blobs removed, 1 keys revoked" in again.stdout
    assert "backups, logs" in again.stderr
    assert "Ann" not in (tmp_path / "store.db").read_bytes().decode("latin-1")


def test_bad_words_change_nothing(server: Live, tmp_path: Path) -> None:
    """No org, a name that none can have, a result that is held."""
    run(tmp_path, "erase", "--yes", exit_code=2)
    run(tmp_path, "erase", "--org", "a b", "--yes", exit_code=2)
    job = server.wait(server.submit("echo", "org-a", query="Bern")["job_id"], "org-a")
    held = server.http.post(f"/analyze/results/{job['result_id']}/hold", headers={"X-Org-Id": "org-a"})
    assert held.status_code == 200
    refused = run(tmp_path, "erase", "--org", "org-a", "--yes", exit_code=1)
    assert "--include-held" in refused.output
    assert server.job(job["job_id"], "org-a")["held_at"]
    run(tmp_path, "erase", "--org", "org-a", "--yes", "--include-held")
    assert server.http.get(f"/analyze/jobs/{job['job_id']}", headers={"X-Org-Id": "org-a"}).status_code == 404
