"""Plain functions of a script's own main module: a process finds them, and does not start the script again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import environment

_SCRIPT = """
import asyncio, os
from langlauf.auth.caller import internal_caller
from langlauf import Langlauf, PlainJob
from langlauf.settings import load_settings

app = Langlauf()
print("loaded as", __name__, flush=True)

class Busy(Exception):
    pass

@app.analysis(transient=(Busy,))
def work(job: PlainJob, n: int) -> dict:
    return {"n": n, "elsewhere": os.getpid() != PARENT, "module": work.__module__}

PARENT = int(os.environ.setdefault("LANGLAUF_TEST_PARENT", str(os.getpid())))

async def main():
    app.use(load_settings(store="memory://"))
    async with app.lifespan():
        job = await app.submit("work", n=7)
        runtime = app.runtime
        caller = internal_caller("default-org")
        view = await runtime.services.followers.until(caller, job.job_id, 30, lambda view: view.job.terminal)
        found = await runtime.services.reads.of(caller).result(view.job.result_id, latest=True)
        print(view.job.status, found.delivered.payload)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]])
def test_a_script_can_have_plain_analyses(tmp_path: Path, words: list[str]) -> None:
    """Started by its file or as a module."""
    (tmp_path / "script.py").write_text(_SCRIPT, encoding="utf-8")
    command = [sys.executable, *words]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "loaded as __main__"
    assert ran.stdout.splitlines()[-1].startswith('completed {"n":7,"elsewhere":true'), ran.stdout + ran.stderr
