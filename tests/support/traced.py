"""Analyses that tell which trace they belong to: one on the event loop, one in a process."""

from typing import Any

from langlauf import Job, Langlauf, PlainJob

app = Langlauf()


@app.analysis(duplicates=True)
async def here(job: Job) -> dict[str, Any]:
    """Tells it from the event loop."""
    return {"trace_id": job.trace_id, "traceparent": job.traceparent, "tracestate": job.tracestate}


@app.analysis(duplicates=True)
def there(job: PlainJob) -> dict[str, Any]:
    """Tells it from a process, and prints."""
    print("working")
    return {"trace_id": job.trace_id, "traceparent": job.traceparent, "tracestate": job.tracestate}
