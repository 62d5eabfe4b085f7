"""Commands that the other pages tell people to type do what they say."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.serving import served
from tests.docs.shell import read_curl
from tests.support.server import environment

DOCUMENTED_URL = "http://127.0.0.1:8080"
#: Words that tell which block of operations.md is meant.
RECIPES = {
    "backup": "langlauf backup backups/langlauf.db",
    "retention": "langlauf cleanup --dry-run --json",
    "upgrade": "backups/before-upgrade.db",
    "checks": "another-org",
    "smoke": "langlauf doctor --probe --url",
}


def _curls() -> list[tuple[str, str]]:
    pages = ("docs/http_api.md", "docs/operations.md")
    lines = [(page, line) for page in pages for block in blocks(page, "bash") for line in block.text.splitlines()]
    return [(page, line) for page, line in lines if line.startswith("curl ") and "${" not in line]


def test_every_curl_of_the_reference_pages_works(bundled_url: str) -> None:
    """Each is sent to a server; a number in the comment behind it is the status it gets, else it is 200."""
    curls = _curls()
    with httpx2.Client(base_url=bundled_url, timeout=60, trust_env=False) as http:
        job_id = http.post("/analyze", json={"query": "Bern"}).json()["job_id"]
        for page, line in curls:
            wanted = read_curl(line.replace(DOCUMENTED_URL, bundled_url).replace("$JOB", job_id))
            told = re.search(r"#.*\b(\d{3})\b", line)
            # Only the head: a stream may go on for ever.
            with http.stream(wanted.method, wanted.url, headers=wanted.headers, content=wanted.body) as answer:
                assert answer.status_code == (int(told[1]) if told else 200), (page, line)
    assert {page for page, _ in curls} == {"docs/http_api.md", "docs/operations.md"}
    assert len(curls) >= 8


def _shim(folder: Path, name: str, *words: str) -> None:
    file = folder / name
    file.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *words])} "$@"\n', "utf-8")
    file.chmod(0o755)


@pytest.fixture
def shell_folder(tmp_path: Path) -> Path:
    """A folder with an empty store at the default place, and the commands of the documents on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "python3"):
        _shim(programs, name)
    _shim(programs, "langlauf", "-m", "langlauf")
    if shutil.which("curl") is None:
        _shim(programs, "curl", "-m", "tests.docs.curl")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    _shell(tmp_path, "langlauf migrate")
    return tmp_path


def _shell(folder: Path, script: str, **variables: str) -> str:
    known = environment(PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", **variables)
    words = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr
    return done.stdout


def _recipe(name: str) -> str:
    found = [block.text for block in blocks("docs/operations.md", "bash") if RECIPES[name] in block.text]
    assert len(found) == 1
    return found[0]


def test_the_backup_works(shell_folder: Path) -> None:
    """The copy is readable by its owner alone, and can be put back where no store is."""
    script = _recipe("backup").replace("langlauf restore", "rm -r runtime && langlauf restore")
    _shell(shell_folder, script)
    assert (shell_folder / "backups/langlauf.db").stat().st_mode & 0o777 == 0o600
    assert (shell_folder / "runtime/async_jobs/store.v1.db").exists()


def test_the_steps_of_an_upgrade_work(shell_folder: Path) -> None:
    """On a store that needs none they change nothing."""
    assert "nothing to do" in _shell(shell_folder, _recipe("upgrade"))


def test_the_clean_up_works(shell_folder: Path) -> None:
    """The command and the script print their report, and the script writes it to the file as well."""
    printed = _shell(shell_folder, _recipe("retention"))
    assert printed.count('"dry_run": true') == 2
    assert '"terminal_job_count": 0' in (shell_folder / "artifacts/cleanup.json").read_text("utf-8")


def test_the_checks_and_the_list_after_a_deployment_work(shell_folder: Path) -> None:
    """As they stand, line by line, against a server at the default store: the first that fails would end them."""
    with served(shell_folder / "runtime/async_jobs/store.v1.db", folder=shell_folder) as server:
        done = httpx2.post(f"{server.url}/analyze", json={"query": "Bern"}, timeout=60, trust_env=False).json()
        ids = {"BASE_URL": server.url, "ORG_ID": "default-org"}
        ids |= {"JOB_ID": done["job_id"], "RESULT_ID": done["result_id"]}
        checked = _shell(shell_folder, _recipe("checks"), **ids)
        assert checked.count('"ok":true') == 6
        assert '"dry_run": true' in checked
        smoked = _shell(shell_folder, _recipe("smoke"), **ids)
    assert "langlauf_store_up 1.0" in smoked
    assert '"query":"Bern"' in smoked.replace(" ", "")
