"""A time limit shows what hangs, and tests run in the same environment wherever they are started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.process_environment import same_dispositions
from tests.support.server import ROOT, environment
from tests.support.time_limit import time_limit

_SLEEPER = "import time\ndef a_child_that_sleeps():\n    print(flush=True)\n    time.sleep(600)\na_child_that_sleeps()"
_SURROUNDINGS = """
import os, signal, sys, time
from pathlib import Path
from tests.support.process_environment import isolate
isolate(Path(sys.argv[1]))
umask = os.umask(0o022)
names = sorted(set(os.environ) - {"PATH", "TMPDIR", "CI"})
print(umask, time.timezone, signal.getsignal(signal.SIGINT).__name__, names)
"""


def test_at_its_limit_a_test_fails_and_shows_threads_and_children(capfd: pytest.CaptureFixture[str]) -> None:
    """Where everything waits for something that does not come, one sees for what."""
    release = threading.Event()

    def a_thread_that_waits() -> None:
        release.wait()

    waiting = threading.Thread(target=a_thread_that_waits)
    waiting.start()
    with subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            with pytest.raises(pytest.fail.Exception, match=r"over its time limit of 0\.1 s"), time_limit(0.1):
                child.wait()
        finally:
            child.kill()
            release.set()
            waiting.join()
    told = capfd.readouterr().err
    assert "a_thread_that_waits" in told
    assert f"child {child.pid}" in told
    assert "a_child_that_sleeps" in told


def test_what_a_process_inherits_does_not_matter(tmp_path: Path) -> None:
    """As a CI system starts it: signals ignored, a strict umask, another time zone, a proxy, settings of Langlauf."""
    odd = {
        "TZ": "Asia/Kolkata",
        "LANG": "C",
        "HTTPS_PROXY": "http://10.0.0.1",
        "LANGLAUF_MAX_RUNNING": "0",
        "TERM": "vt52",
    }
    words = ["sh", "-c", 'trap "" INT; umask 077; exec "$0" -c "$1" "$2"', sys.executable, _SURROUNDINGS, str(tmp_path)]
    env = {**odd, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "18 -19800 default_int_handler ['HOME', 'LANG', 'TERM', 'TZ']\n"


def test_a_test_that_changes_how_signals_are_handled_fails() -> None:
    """Programs that later tests start would inherit that, and wait for ever for Ctrl-C."""

    def ignore(*numbers: signal.Signals) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    with pytest.raises(pytest.fail.Exception, match="SIGINT, SIGTERM"), same_dispositions():
        ignore(signal.SIGINT, signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(("everything", "outcome"), [("0", "1 passed, 2 skipped"), ("1", "2 failed, 1 passed")])
def test_what_is_missing_leaves_tests_out_and_is_told_in_a_line(tmp_path: Path, everything: str, outcome: str) -> None:
    """One line for each thing, with the number of tests; in `make test-all` they fail instead."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *", "utf-8")
    (tmp_path / "test_moon.py").write_text(
        "from tests.support.tiers import Missing\n"
        "def test_one(): raise Missing('There is no moon.')\n"
        "def test_two(): raise Missing('There is no moon.')\n"
        "def test_three(): pass\n",
        "utf-8",
    )
    env = {**environment(LANGLAUF_TEST_ALL=everything), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("left out: 2 tests. There is no moon.") == (everything == "0")
