"""The application that is measured over HTTP: its work is nothing, so that what is left is Langlauf's own cost."""

from typing import Any

from langlauf.analysis.job import Job
from langlauf.app import Langlauf

app = Langlauf()


@app.analysis
async def bench(job: Job, query: str) -> dict[str, Any]:
    """Shows one partial result, then returns."""
    await job.partial({"query": query, "found": False}, progress=50)
    return {"query": query, "found": True, "score": 0.93}
