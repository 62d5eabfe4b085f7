"""The analysis that every application has beside its own: it does nothing, so that a probe sees all around it.

It is in no list and no form. `langlauf doctor --probe` submits it, in an org of its own.
"""

import asyncio

from langlauf.analysis.job import Job

PROBE_NAME = "langlauf.probe"
PROBE_ORG = "langlauf-probe"
#: However long it is asked to take, it takes no longer.
LONGEST_PROBE_SECONDS = 30.0
PROBE_TIMEOUT = 60.0


async def probe(job: Job, seconds: float = 0.0) -> dict[str, int]:
    """Waits, so that it can be canceled meanwhile, and returns which attempt it was."""
    await job.progress(50, step="Probing")
    await asyncio.sleep(min(max(seconds, 0.0), LONGEST_PROBE_SECONDS))
    return {"attempt": job.attempt}
