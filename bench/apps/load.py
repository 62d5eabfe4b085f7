"""The client of the HTTP section, the same for every stack: `load.py URL KIND JOBS`, in an environment with aiohttp.

Submits JOBS, 32 at once, then polls each until it has ended, every 20 ms. Then one job at a time. Prints JSON.
"""

import asyncio
import json
import statistics
import sys
import time

import aiohttp
import uvloop

AT_ONCE = 32
POLL_SECONDS, ALONE_POLL_SECONDS = 0.02, 0.002
ALONE, WARMING = 50, 20
LONGEST = 240
WORK = {"task": "report.render", "payload": {"a": "x" * 200}}


class Plain:
    """The API of the stacks that one would build: POST /jobs, GET /jobs/{id}."""

    def __init__(self, url):
        self.submit_url, self.body = f"{url}/jobs", WORK

    def id_of(self, answer):
        return answer["id"]

    def status_url(self, job_id):
        return f"{self.submit_url}/{job_id}"

    def ended(self, answer):
        return answer["done"]


class Langlauf:
    """The API of Langlauf."""

    def __init__(self, url):
        self.submit_url = f"{url}/analyze"
        self.body = {"analysis": "noop", "input": WORK, "options": {"async_mode": {"requested": True}}}

    def id_of(self, answer):
        return answer["job"]["job_id"]

    def status_url(self, job_id):
        return f"{self.submit_url}/jobs/{job_id}"

    def ended(self, answer):
        return answer["job"]["status"] == "completed"


class Load:
    """Submissions and polls over one session."""

    def __init__(self, session, api):
        self.session, self.api = session, api

    async def submit(self):
        async with self.session.post(self.api.submit_url, json=self.api.body) as response:
            if response.status != 202:
                raise SystemExit(f"{response.status}: {await response.text()}")
            return self.api.id_of(await response.json())

    async def follow(self, job_id, pause):
        while True:
            async with self.session.get(self.api.status_url(job_id)) as response:
                if self.api.ended(await response.json()):
                    return
            await asyncio.sleep(pause)

    async def all_of(self, jobs):
        """Return jobs per second from the first submission to the last end seen, and what submissions took."""
        taken, ids = [], []

        async def submit(_):
            began = time.perf_counter()
            ids.append(await self.submit())
            taken.append((time.perf_counter() - began) * 1_000)

        began = time.perf_counter()
        await side_by_side(submit, range(jobs))
        await side_by_side(lambda job_id: self.follow(job_id, POLL_SECONDS), list(ids))
        return jobs / (time.perf_counter() - began), sorted(taken)

    async def alone(self):
        """Return from sending a job to seeing its end, in milliseconds, one after the other."""
        taken = []
        for _ in range(ALONE):
            began = time.perf_counter()
            await self.follow(await self.submit(), ALONE_POLL_SECONDS)
            taken.append((time.perf_counter() - began) * 1_000)
            await asyncio.sleep(0.01)
        return taken


async def side_by_side(work, items):
    left = iter(items)

    async def lane():
        for item in left:
            await work(item)

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


async def main(url, kind, jobs):
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.timeout(LONGEST):
        load = Load(session, {"plain": Plain, "langlauf": Langlauf}[kind](url))
        await load.all_of(WARMING)
        await asyncio.sleep(0.5)
        rate, taken = await load.all_of(jobs)
        found = {
            "jobs_per_second": rate,
            "submit_p50_ms": statistics.median(taken),
            "submit_p99_ms": taken[int(0.99 * (len(taken) - 1))],
            "alone_p50_ms": statistics.median(await load.alone()),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
