"""Python in the documents compiles and runs, and the examples do what they say."""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.docs.pages import ROOT, blocks, read
from tests.docs.serving import served
from tests.support.server import environment

PAGES = ("README.md", "docs/python.md")
PYTHON = [(page, number, block.text) for page in PAGES for number, block in enumerate(blocks(page, "python"))]
IDS = [f"{page}-{number}" for page, number, _ in PYTHON]


def test_there_is_python_to_run() -> None:
    """Both pages have complete blocks."""
    assert {page for page, _, _ in PYTHON} == set(PAGES)
    assert len(PYTHON) >= 6


@pytest.mark.parametrize("block", PYTHON, ids=IDS)
def test_a_block_of_python_runs(block: tuple[str, int, str], bundled_url: str, tmp_path: Path) -> None:
    """Each block is complete: alone in a file it runs to its end, against the server where it talks to one."""
    page, number, text = block
    compile(text, f"{page}[{number}]", "exec")
    file = tmp_path / "block.py"
    file.write_text(text.replace("http://127.0.0.1:8080", bundled_url), "utf-8")
    words = [sys.executable, "-W", "error", str(file)]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_analysis_of_the_readme_is_the_example() -> None:
    """What the README shows is the file that can be run."""
    assert blocks("README.md", "python")[0].text == read("examples/survey.py")


def test_the_survey_runs(tmp_path: Path) -> None:
    """Served as its first line says, it reports steps, leaves a partial result per year and ends with all of them."""
    example = served(tmp_path / "store.db", "survey:app", folder=ROOT / "examples")
    with example as server, _client(server.url) as http:
        headers = {"Prefer": "respond-async, wait=30"}
        answer = http.post("/analyze", json={"region": "CH", "years": 2}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"] == {"totals": {"0": 2000, "1": 2001}}
        job = http.get(f"/analyze/jobs/{answer.json()['job_id']}").json()["job"]
        assert (job["status"], job["partial_count"], job["step"]) == ("completed", 2, "Reading year 1")
        refused = http.post("/analyze", json={"region": 7})
        assert (refused.status_code, refused.json()["field"]) == (400, "region")


def _client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=60, trust_env=False)
