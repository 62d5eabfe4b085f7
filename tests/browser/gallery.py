"""A server in which every page has something to show: jobs in all states, and results of every kind."""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from langlauf import Job, Langlauf, PermanentError, Result, TransientError, views
from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.delivery import DeliveryClaim, DeliveryEnd
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.live import GATES, Live, live

#: Long enough for a tour: what waits goes on waiting, what is asked to stop goes on stopping.
_SETTINGS = {
    "LANGLAUF_MAX_RUNNING": "32",
    "LANGLAUF_RETRY_BASE": "1h",
    "LANGLAUF_RETRY_CAP": "2h",
    "LANGLAUF_CANCEL_GRACE": "1d",
    "LANGLAUF_LEASE_SECONDS": "60",
    "LANGLAUF_SWEEP_SECONDS": "1d",
    "LANGLAUF_WEBHOOK_SECRET": "whsec_" + "A" * 32,
    "LANGLAUF_SMTP": "smtp://127.0.0.1:9?tls=none",
    "LANGLAUF_MAIL_FROM": "jobs@example.org",
    # Nothing leaves the machine: how deliveries went is written by hand.
    "LANGLAUF_DELIVERIES": "0",
}
_GATE = "gallery"


def shown(region: str, rows: list[dict[str, Any]]) -> list[views.AnyView]:
    """One view of every kind, pictures aside."""
    line = {
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "year", "type": "ordinal", "title": "Year"},
            "y": {"field": "noise", "type": "quantitative", "title": "Noise (dB)"},
        },
    }
    places = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"year": row["year"], "parcels": row["parcels"]},
                "geometry": {"type": "Point", "coordinates": [8.52 + number * 0.006, 47.37 + number % 3 * 0.004]},
            }
            for number, row in enumerate(rows)
        ],
    }
    return [
        views.chart(line, title="Noise by year", summary=f"Noise in {region} over {len(rows)} years."),
        views.table(at="/rows", columns={"year": "Year", "parcels": "Parcels", "noise": "Noise"}, title="By year"),
        views.map(places, title="Where it was measured"),
        views.markdown(f"**{len(rows)} years** were read.\n\n- Source: the register\n- Gaps: none", title="Notes"),
        views.file("by_year.csv", "year,noise\n" + "".join(f"{row['year']},{row['noise']}\n" for row in rows)),
    ]


def gallery_app() -> Langlauf:
    """Analyses that stop where a page is to be looked at."""
    app = Langlauf()

    @app.analysis(duplicates=True, max_retries=3)
    async def survey(job: Job, region: str, years: int = 3, ends: str = "completes") -> Any:
        """Reads what is known of a region, year by year.

        Every year is a chunk, and each ends in an interim result.
        """
        rows = []
        async for year in job.chunks(range(2020, 2020 + years), step="Reading {}"):
            rows.append({"year": year, "parcels": 50 + year % 7, "noise": round(48.2 + year % 5 * 1.3, 1)})
            found = {"region": region, "rows": rows}
            await job.partial(found, summary={"years": len(rows), "region": region}, views=shown(region, rows))
        if ends == "waits":
            await GATES.wait(_GATE)
        if ends == "fails":
            raise PermanentError("The register of Kreis 4 has no entry for 2023.", code="register_gap")
        if ends == "tries again":
            raise TransientError("The register did not answer in time.")
        return Result({"region": region, "rows": rows}, summary={"years": len(rows)}, views=shown(region, rows))

    @app.analysis(duplicates=True)
    async def silently(job: Job) -> dict[str, Any]:
        """Works without telling how far it is."""
        await GATES.wait(_GATE)
        return {}

    @app.analysis(duplicates=True, max_running=1)
    async def single(job: Job, number: int) -> dict[str, Any]:
        """Runs alone; the next one waits."""
        await job.progress(10, "Opening the archive")
        await GATES.wait(_GATE)
        return {"number": number}

    @app.analysis(duplicates=True)
    async def slow_to_stop(job: Job) -> dict[str, Any]:
        """Takes its time when it is asked to stop."""
        await job.progress(60, "Writing the last volume")
        try:
            await GATES.wait(_GATE)
        except asyncio.CancelledError:
            await GATES.wait(_GATE)
        return {}

    return app


class Gallery:
    """The server, and a job for every state by the state's name."""

    def __init__(self, site: Live, store: Path) -> None:
        self.site = site
        self._store = store
        self._endpoints()
        self.jobs = self._jobs()
        self._aside(self._told())

    def _jobs(self) -> dict[str, str]:
        survey = self._survey
        jobs = {
            "completed": survey("Zürich, Kreis 4", years=5),
            "failed": survey("Zürich, Kreis 5", ends="fails"),
            "partial": survey("Genève, Plainpalais", ends="waits"),
            "backoff": survey("Basel, Gundeldingen", ends="tries again"),
            "canceled": survey("Bern, Länggasse", ends="waits"),
            "canceling": self._submit("slow_to_stop"),
            "running": self._submit("silently"),
            "working": self._submit("single", number=1),
        }
        for name, until in (("completed", None), ("failed", None), ("partial", "partial"), ("canceled", "partial")):
            self.site.wait(jobs[name], until=until)
        for name in ("canceling", "running", "working"):
            self.site.wait(jobs[name], until="running")
        for name in ("canceled", "canceling"):
            self._cancel(jobs[name], "The wrong year was chosen.")
        self.site.wait(jobs["canceled"])
        jobs["silent"] = self._submit("single", number=2)
        jobs["queued"] = self._submit("single", number=3)
        self._aside(self._taken_elsewhere())
        return jobs

    def _endpoints(self) -> None:
        """One that works, one that fails, one that nobody calls."""
        for name in ("warehouse", "reports", "old system"):
            body = {"url": f"https://hooks.example/{name.replace(' ', '-')}", "name": name}
            assert self.site.http.post("/analyze/webhooks", json=body).status_code == 201
        plan = {
            "name": "morning",
            "analysis": "survey",
            "input": {"region": "Bern"},
            "cron": "0 6 * * 1-5",
            "zone": "Europe/Zurich",
        }
        assert self.site.http.post("/analyze/schedules", json=plan).status_code == 201
        [*_, last] = self.site.http.get("/analyze/webhooks").json()["webhooks"]
        self.site.http.patch(f"/analyze/webhooks/{last['endpoint_id']}", json={"enabled": False})

    async def _told(self) -> None:
        """What a sender would have written: some arrived, some did not."""
        store = await SqliteStore.open(str(self._store), hints=Hints())
        claim = DeliveryClaim(most=20, most_of_lane=10, claim_seconds=60, cautious_after=5)
        names = {one.endpoint_id: one.name for one in await store.tenant("default-org").endpoints()}
        try:
            for delivery in await store.deliveries.claim(claim):
                end = DeliveryEnd(
                    org_id=delivery.org_id,
                    notification_id=delivery.notification_id,
                    attempt=delivery.attempt,
                    status="sent",
                    seconds=0.2,
                )
                if names.get(delivery.endpoint_id or "") == "reports":
                    trouble = {"error": "the receiver answered 503", "retry_seconds": 300.0, "lane_failed": True}
                    end = replace(end, status="pending", pause_seconds=120.0, **trouble)
                await store.deliveries.finish(end)
        finally:
            await store.close()

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something in a thread of its own: this thread's event loop may be the browser's."""
        with ThreadPoolExecutor(1) as aside:
            aside.submit(lambda: asyncio.run(work)).result()

    def result(self, name: str) -> str:
        """The id of a job's newest result."""
        return str(self.site.job(self.jobs[name])["result_id"])

    def _survey(self, region: str, **values: Any) -> str:
        return self._submit("survey", region=region, **values)

    def _submit(self, analysis: str, **values: Any) -> str:
        return str(self.site.submit(analysis, **values)["job_id"])

    def _cancel(self, job_id: str, reason: str) -> None:
        answer = self.site.http.post(f"/analyze/jobs/{job_id}/cancel", json={"reason": reason})
        assert answer.is_success, answer.text

    async def _taken_elsewhere(self) -> None:
        """A worker that shares the store takes the first waiting job, and is not heard of any more."""
        store = await SqliteStore.open(str(self._store), hints=Hints())
        try:
            request = ClaimRequest(
                worker_id="worker-elsewhere", slots=1, analyses=("single",), lease_seconds=15, max_running=100
            )
            [_] = await store.claim(request)
        finally:
            await store.close()


@contextmanager
def gallery(folder: Path) -> Iterator[Gallery]:
    """The gallery, until the block ends."""
    with live(folder, gallery_app(), **_SETTINGS) as site:
        try:
            yield Gallery(site, folder / "store.db")
        finally:
            GATES.open(_GATE)
