"""An application whose analyses tell what they see of the secrets of its operator."""

import os
from pathlib import Path

from langlauf import Job, Langlauf, PlainJob

app = Langlauf()


def seen() -> dict[str, str]:
    """Everything of an environment that code in this process can get at: its own, and that of those above it."""
    found = dict(os.environ)
    for name, pid in {"own": os.getpid(), "parent": os.getppid(), "above": _parent(os.getppid())}.items():
        found[f"/proc of {name}"] = (
            Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").replace("\0", " ")
        )
    return found


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


@app.analysis(duplicates=True, max_retries=0)
def snoop(job: PlainJob) -> dict[str, str]:
    """Looks around in a process of its own."""
    return seen()


@app.analysis(duplicates=True, max_retries=0)
async def snoop_on_loop(job: Job) -> dict[str, str]:
    """Looks around in the process of the server."""
    return {name: value for name, value in seen().items() if name not in ("/proc of parent", "/proc of above")}
