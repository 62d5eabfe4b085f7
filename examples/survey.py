"""A survey that reads one year after the other. Serve it from this folder: langlauf serve survey:app --port 8081"""

import asyncio
from typing import Any

from langlauf import Job, Langlauf

app = Langlauf()


@app.analysis(timeout="30m", max_retries=3)
async def survey(job: Job, region: str, years: int = 3) -> dict[str, Any]:
    """Counts what was recorded in a region, year by year."""
    totals: dict[str, int] = {}
    async for year in job.chunks(range(years), step="Reading year {}"):  # progress
        # Computed once in the life of the job: after a crash the stored value comes back.
        totals[str(year)] = await job.checkpoint(f"year-{year}", read_year, region, year)
        await job.partial({"totals": totals}, summary={"years_read": len(totals)})  # a snapshot people can look at
    return {"totals": totals}


async def read_year(region: str, year: int) -> int:
    """Stands for what takes its time: a database, a download, a model."""
    await asyncio.sleep(0.5)
    return 1_000 * len(region) + year
