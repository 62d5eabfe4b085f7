"""An application with small analyses that do what a test asks for."""

import asyncio
from pathlib import Path
from typing import Any, Literal

from langlauf import Job, Langlauf, PermanentError, TransientError, views

app = Langlauf()
_LOOK_SECONDS = 0.01


@app.analysis
async def echo(job: Job, value: Any = None) -> dict[str, Any]:
    """Returns what it was given."""
    return {"value": value, "org": job.org_id}


@app.analysis
async def steps(job: Job, count: int = 3, gate: str | None = None) -> dict[str, Any]:
    """Stores a partial per step; with a gate, waits after the steps until that file exists."""
    await job.source("Numbers", version="1", url="https://example.org/numbers")
    done: list[int] = []
    async for number in job.chunks(range(count), step="Step {}"):
        done.append(await job.checkpoint(f"step-{number}", _square, number))
        await job.partial({"done": done}, summary={"steps": len(done)}, views=[views.markdown(f"{done}")])
    if gate is not None:
        await _until_exists(gate)
    return {"done": done}


@app.analysis
async def gate(job: Job, path: str, note: str = "at the gate") -> dict[str, str]:
    """Waits until a file exists."""
    await job.progress(50, note)
    await _until_exists(path)
    return {"passed": path}


@app.analysis
async def hang(job: Job, label: str = "") -> None:
    """Goes on until it is canceled."""
    await job.progress(10, f"hanging {label}".strip())
    await asyncio.Event().wait()


@app.analysis
async def fail(job: Job, how: Literal["transient", "permanent", "bug"], partials: int = 0) -> None:
    """Fails: for good, for a passing reason, or by mistake."""
    for number in range(partials):
        await job.partial({"before": number})
    if how == "transient":
        raise TransientError("the upstream is busy")
    if how == "permanent":
        raise PermanentError("the region is unknown", code="unknown_region")
    raise RuntimeError("a mistake")


@app.analysis
async def large(_: Job, size: int = 300_000) -> str:
    """A result that may be too large to stand in a status."""
    return "x" * size


@app.analysis(max_retries=0)
async def halfway(job: Job) -> None:
    """Finishes two of three parts."""
    await job.map(_part, [1, 2, 3])


def _part(number: int) -> int:
    if number == 3:
        raise ConnectionError("the third cannot be reached")
    return number


async def _square(number: int) -> int:
    return number * number


async def _until_exists(path: str) -> None:
    while not await asyncio.to_thread(Path(path).exists):  # noqa: ASYNC110 - a file comes from another process
        await asyncio.sleep(_LOOK_SECONDS)
