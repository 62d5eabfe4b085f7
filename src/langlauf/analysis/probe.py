"""The built-in analysis of `langlauf doctor --probe`: it does nothing, so that the probe measures everything else.

It is in no list and no form, and runs in an org of its own.
"""

import asyncio

from langlauf.analysis.job import Job

PROBE_NAME = "langlauf.probe"
PROBE_ORG = "langlauf-probe"
#: The longest that it waits, whatever is requested.
LONGEST_PROBE_SECONDS = 30.0
PROBE_TIMEOUT = 60.0


async def probe(job: Job, seconds: float = 0.0) -> dict[str, int]:
    """Wait, so that it can be canceled meanwhile, and return the number of the attempt."""
    await job.progress(50, step="Probing")
    await asyncio.sleep(min(max(seconds, 0.0), LONGEST_PROBE_SECONDS))
    return {"attempt": job.attempt}
