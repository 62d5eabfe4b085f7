"""The application of the peer Langlauf: a no-op that marks its start."""

from mark import mark

from langlauf import Job, Langlauf

app = Langlauf()


@app.analysis(duplicates=True, timeout=60)
async def noop(job: Job, enqueued_at: float, padding: str = "") -> int:
    """Mark the start."""
    return mark(enqueued_at)
