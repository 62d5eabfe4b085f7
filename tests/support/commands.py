"""Commands in this process: what they print and how they exit, without the half second that a new process takes."""

import subprocess

from click.testing import CliRunner

from langlauf.cli.main import main


def run_command(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `langlauf …` to its end. Where signals or terminals matter, start a process instead."""
    done = CliRunner().invoke(main, words, prog_name="langlauf", env=settings)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
