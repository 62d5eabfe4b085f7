"""A server as a person starts it, for the documents to be tried on."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support.server import ServerProcess, command, environment


@contextmanager
def served(store: Path, *target: str, folder: Path = ROOT, **settings: str) -> Iterator[ServerProcess]:
    """`langlauf serve` on a free port, with default settings besides; it must stop cleanly."""
    words = command("serve", *target, "--port", "0", "--store", str(store))
    process = subprocess.Popen(words, cwd=folder, env=environment(**settings), stderr=subprocess.PIPE, text=True)
    try:
        server = ServerProcess(process)
        yield server
        assert server.stop() == 0, "".join(server.log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
