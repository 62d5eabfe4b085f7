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


def double(number: int) -> int:
    """A chunk."""
    return 2 * number


def broken(_: int) -> int:
    """A chunk that fails with words that are nobody's business."""
    raise ValueError("the secret is xyzzy")


@app.analysis(duplicates=True)
async def parts(job: Job, fails: bool = False) -> dict[str, Any]:
    """Chunks of both kinds, on the event loop."""
    first = await job.checkpoint("first", double, 1)
    rest = await job.map(broken if fails else double, [2, 3], key="rest")
    return {"parts": [first, *rest], "traceparent": job.traceparent}


@app.analysis(duplicates=True)
def plain_parts(job: PlainJob) -> dict[str, Any]:
    """Chunks of both kinds, in a process."""
    first = job.checkpoint("first", double, 1)
    return {"parts": [first, *job.map(double, [2, 3], key="rest")], "traceparent": job.traceparent}
