"""Watching a job in a terminal, in a pipe, and leaving it."""

import ctypes
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from langlauf.client import Client
from langlauf.domain.state import Status
from tests.cli.conftest import Commands
from tests.support.server import ServerProcess, environment


def read_until(terminal: int, text: str) -> str:
    """What a terminal shows, up to a text, or all of it."""
    shown = b""
    while text.encode() not in shown or not text:
        try:
            data = os.read(terminal, 4_096)
        except OSError:  # Linux: the other end of the terminal is closed
            data = b""
        if not data:
            break
        shown += data
    return shown.decode()


def test_in_a_terminal(langlauf: Commands, tmp_path: Path) -> None:
    """A bar is redrawn in place with state, percent, step and attempt; the outcome stands below it."""
    job = langlauf.submit("-a", "gate", f"path={tmp_path / 'go'}")
    terminal, inner = pty.openpty()
    process = langlauf.start("watch", job, stderr=inner, stdout=subprocess.PIPE)
    os.close(inner)
    shown = read_until(terminal, "at the gate")
    (tmp_path / "go").touch()
    shown += read_until(terminal, "")
    stdout, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert (process.returncode, stdout) == (0, "")
    assert all(part in shown for part in ("running", "50 %", "attempt 1", "━", "\x1b[2K", "completed", "100 %"))
    assert f"langlauf result {job}" in shown


def test_in_a_pipe(langlauf: Commands, tmp_path: Path) -> None:
    """Elsewhere each change is a line without control characters, and nothing is told twice."""
    job = langlauf.submit("-a", "steps", "count=3", f"gate={tmp_path / 'go'}")
    process = langlauf.start("watch", job, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.rstrip())
        if "3 partials" in line:
            (tmp_path / "go").touch()
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, "")
    assert len(lines) == len(set(lines))
    assert "\x1b" not in "".join(lines)
    assert lines[-3].startswith("completed, 100 %")
    assert lines[-2].startswith("Completed")


def test_ctrl_c_detaches(langlauf: Commands, client: Client) -> None:
    """Ctrl-C ends the watching with 130, leaves the job alone and tells how to come back."""
    job = langlauf.submit("-a", "hang")
    process = langlauf.start("watch", job, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "goes on" in stderr
    assert f"langlauf watch {job}" in stderr
    assert client.job(job).status().status in (Status.QUEUED, Status.RUNNING)
    client.job(job).cancel()


def test_ctrl_c_in_a_terminal_leaves_it_tidy(
    langlauf: Commands, client: Client, until_step: Callable[[str, str], None]
) -> None:
    """The cursor is shown again when the bar goes away."""
    job = langlauf.submit("-a", "hang")
    until_step(job, "hanging")
    terminal, inner = pty.openpty()
    process = langlauf.start("watch", job, stderr=inner, stdout=subprocess.DEVNULL)
    os.close(inner)
    read_until(terminal, "hanging")
    process.send_signal(signal.SIGINT)
    shown = read_until(terminal, "")
    assert process.wait(60) == 130
    os.close(terminal)
    assert shown.index("\x1b[?25h") < shown.index("goes on")
    client.job(job).cancel()


def test_an_interrupt_that_another_thread_gets(
    langlauf: Commands, client: Client, until_step: Callable[[str, str], None]
) -> None:
    """Ctrl-C is noticed although it does not interrupt the system call in which the main thread waits."""
    job = langlauf.submit("-a", "hang")
    until_step(job, "hanging")
    terminal, inner = pty.openpty()
    process = langlauf.start("watch", job, stderr=inner, stdout=subprocess.DEVNULL)
    os.close(inner)
    read_until(terminal, "hanging")
    threads = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir() if int(path.name) != process.pid]
    send_to_thread(process.pid, threads[0], signal.SIGINT)
    shown = read_until(terminal, "")
    assert process.wait(60) == 130
    os.close(terminal)
    assert "goes on" in shown
    client.job(job).cancel()


def test_an_interrupt_in_a_finaliser(langlauf: Commands, client: Client) -> None:
    """Python drops the exception of a finaliser; the command ends all the same when it waits next."""
    job = langlauf.submit("-a", "hang")
    code = f"""
import click, signal
from langlauf.cli.client_command import with_client

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@click.command()
@with_client
def command(client, *, as_json):
    Finalised()
    client.job("{job}").wait()

command()
"""
    done = subprocess.run([sys.executable, "-c", code, *langlauf.flags], env=environment(), timeout=60, check=False)
    assert done.returncode == 130
    client.job(job).cancel()


def send_to_thread(process: int, thread: int, number: signal.Signals) -> None:
    """Send a signal to one thread of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.tgkill(process, thread, number) == 0, os.strerror(ctypes.get_errno())


def test_the_bar_of_a_client(server: ServerProcess, org: str) -> None:
    """A script that runs a job in a terminal draws the same bar."""
    code = "import sys; from langlauf import Client; print(Client(*sys.argv[1:]).run('steps', count=2))"
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, server.url, org],
        env=environment(TERM="xterm", COLUMNS="100"),
        text=True,
        stderr=inner,
        stdout=subprocess.PIPE,
    )
    os.close(inner)
    shown = read_until(terminal, "")
    stdout, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert process.returncode == 0
    assert "done" in stdout
    assert all(part in shown for part in ("completed", "100 %", "━"))
