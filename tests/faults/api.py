"""HTTP client of the harness."""

import asyncio
import time
from typing import Any, Self

import httpx2

from tests.faults.fleet import Deployment

Record = dict[str, Any]
_CONNECTIONS = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
_POLL_SECONDS = 5
_PAGE = 200
_EVENTS_PAGE = 1_000


class Api:
    """A client of one org; each request may reach another server process."""

    def __init__(self, fleet: Deployment, org: str = "default-org", *, seconds: float = 60) -> None:
        self._fleet = fleet
        self._http = httpx2.AsyncClient(
            timeout=seconds, trust_env=False, limits=_CONNECTIONS, headers={"X-Org-Id": org, "Prefer": "respond-async"}
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def submit(self, analysis: str, *, key: str | None = None, **body: Any) -> Record:
        """Submit a job; if the server is killed meanwhile, repeat under the same idempotency key."""
        while True:
            await self._fleet.serving.wait()
            try:
                answer = await self.post(analysis, key=key, **body)
            except httpx2.TransportError:
                if key is None:
                    raise
                await asyncio.sleep(0)
                continue
            if answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE and key:
                continue
            # With a key, a job that has completed is answered with its result.
            if answer.status_code == httpx2.codes.OK:
                return {"job_id": answer.json()["job_id"], "replayed": True}
            assert answer.status_code == httpx2.codes.ACCEPTED, answer.text
            job: Record = answer.json()["job"]
            return job | {"replayed": "idempotent-replayed" in answer.headers}

    async def post(self, analysis: str, *, key: str | None = None, **body: Any) -> httpx2.Response:
        """Submit once and return the response."""
        headers = {"Idempotency-Key": key} if key else {}
        return await self._http.post(f"{self._fleet.url}/analyze", json={"analysis": analysis, **body}, headers=headers)

    async def job(self, job_id: str, wait: int | None = None) -> Record | None:
        """Return a job now or after its next change, or None."""
        answer = await self._get(f"/analyze/jobs/{job_id}", **({} if wait is None else {"wait": wait}))
        return None if answer is None else answer["job"]

    async def ended(self, job_id: str, seconds: float) -> Record | None:
        """Return a job when it has ended or at the timeout, or None."""
        deadline = time.monotonic() + seconds
        job = await self.job(job_id)
        while job is not None and not job["finished_at"] and time.monotonic() < deadline:
            job = await self.job(job_id, wait=_POLL_SECONDS)
        return job

    async def events(self, job_id: str) -> list[Record]:
        """Return the events of a job."""
        events: list[Record] = []
        while True:
            after = events[-1]["event_seq"] if events else 0
            page = await self._get(f"/analyze/jobs/{job_id}/events", after=after, limit=_EVENTS_PAGE)
            assert page is not None, job_id
            events += page["events"]
            if len(page["events"]) < _EVENTS_PAGE:
                return events

    async def snapshots(self, job_id: str) -> list[Record]:
        """Return the snapshots of a job without their payloads."""
        answer = await self._get(f"/analyze/jobs/{job_id}/results")
        assert answer is not None, job_id
        results: list[Record] = answer["results"]
        return results

    async def jobs(self) -> dict[str, Record]:
        """Return all jobs of the org."""
        jobs: dict[str, Record] = {}
        place: Record = {}
        while True:
            page = await self._get("/analyze/jobs", limit=_PAGE, **place)
            assert page is not None
            jobs |= {job["job_id"]: job for job in page["jobs"]}
            if not page["next_cursor"]:
                return jobs
            place = {"cursor": page["next_cursor"]}

    async def page(self, **query: Any) -> list[Record]:
        """Return the newest jobs that match."""
        answer = await self._get("/analyze/jobs", limit=_PAGE, **query)
        assert answer is not None
        jobs: list[Record] = answer["jobs"]
        return jobs

    async def cancel(self, job_id: str) -> Record:
        """Request a cancel."""
        answer = await self._http.post(f"{self._fleet.url}/analyze/jobs/{job_id}/cancel")
        assert answer.is_success, answer.text
        job: Record = answer.json()["job"]
        return job

    async def metric(self, name: str) -> float:
        """Return a figure of /metrics, summed over labels unless they are given; 0 if it is missing."""
        text = (await self._http.get(f"{self._fleet.url}/metrics")).text
        told = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.split()[-1]) for line in told)

    async def _get(self, path: str, **query: Any) -> Record | None:
        answer = await self._http.get(self._fleet.url + path, params=query)
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        assert answer.is_success, answer.text
        decoded: Record = answer.json()
        return decoded
