"""One round of jobs on any store, and the results of all rounds, as a table, as Markdown or as JSON."""

import asyncio
import hashlib
import statistics
import time
from collections.abc import Callable, Sequence

import click
import msgspec
from rich.console import Console
from rich.table import Table

from langlauf.clock import Clock, SystemClock, new_id, new_trace_id
from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest, Partial
from langlauf.domain.errors import LanglaufError
from langlauf.domain.job import INLINE_REF, Accepted, JobRecord, NewJob
from langlauf.domain.outcome import Completed
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.worker.claimer import Claimer

# -- rounds ------------------------------------------------------------------------------------------------------------
# Submitters keep a number of jobs in flight, and a claimer claims them as it does for a worker.

ORG = "bench-org"
ANALYSIS = "bench"
RESULT = '{"found":true,"query":"Bahnhofstrasse 1, 9000 St. Gallen","score":0.93}'
LEASE_SECONDS = 15.0
_NO_LIMIT = 1_000_000_000
_POLL_SECONDS = 1.0


def new_job(clock: Clock, org: str = ORG, analysis: str = ANALYSIS, *, payload_bytes: int = 0) -> NewJob:
    """Return a submission that equals no other one; its input has that many bytes, or as few as it needs."""
    now = clock.now()
    job_id = new_id()
    payload = f'{{"query":"Bahnhofstrasse 1, {job_id}"}}'
    payload = payload[:-2] + "." * (payload_bytes - len(payload)) + payload[-2:]
    job = JobRecord(
        job_id=job_id,
        org_id=org,
        analysis=analysis,
        status=Status.QUEUED,
        priority_class="default",
        request_payload_hash=hashlib.sha256(payload.encode()).hexdigest(),
        request_payload_ref=INLINE_REF,
        queued_at=now,
        updated_at=now,
        timeout_seconds=1_800.0,
        max_retries=3,
        trace_id=new_trace_id(),
        request_id=new_id(),
    )
    return NewJob(job=job, payload=payload, max_waiting_org=_NO_LIMIT, max_waiting_all=_NO_LIMIT)


def claim_request(
    slots: int,
    analyses: tuple[str, ...] = (ANALYSIS,),
    *,
    lease_seconds: float = LEASE_SECONDS,
    max_running_org: int | None = None,
) -> ClaimRequest:
    """Return the claim request of a worker with that many free slots."""
    return ClaimRequest(
        worker_id="bench-worker",
        slots=slots,
        analyses=analyses,
        lease_seconds=lease_seconds,
        max_running=_NO_LIMIT,
        max_running_org=max_running_org,
    )


#: Submit, claim, partial result, completion.
WRITES_PER_JOB = 4


class RoundTimes(msgspec.Struct, kw_only=True):
    """The durations of one round, in seconds."""

    jobs: int
    seconds: float
    submits: list[float]
    starts: list[float]
    #: processor time of the measuring process
    cpu_seconds: float = 0.0
    #: transactions for the four writes of all jobs; 0 where the store does not count them
    transactions: int = 0

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.seconds

    @property
    def mean_batch(self) -> float:
        """The mean number of writes per transaction."""
        return WRITES_PER_JOB * self.jobs / max(1, self.transactions)


class JobRound:
    """A number of jobs of one org and one analysis, with `concurrency` in flight."""

    def __init__(self, store: Store, hints: Hints, *, jobs: int, concurrency: int, analysis: str = ANALYSIS) -> None:
        self._store = store
        self._hints = hints
        self._jobs = self._to_submit = jobs
        self._slots = concurrency
        self._analysis = analysis
        self._clock = SystemClock()
        self._submits: list[float] = []
        self._starts: list[float] = []
        self._began: dict[str, float] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> RoundTimes:
        """Return when every job has completed."""
        request = claim_request(self._slots, (self._analysis,))
        claimer = Claimer(self._store, self._hints, _POLL_SECONDS, request, self._free_slots, self._take)
        await claimer.start()
        try:
            began, cpu_before = time.perf_counter(), time.process_time()
            async with asyncio.TaskGroup() as submitters:
                for _ in range(self._slots):
                    submitters.create_task(self._submit_loop())
            seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before
        finally:
            # What it has begun is ended: its connection stays open, and its cost can be read.
            await claimer.stop()
        return RoundTimes(
            jobs=self._jobs,
            seconds=seconds,
            submits=self._submits,
            starts=self._starts,
            cpu_seconds=cpu_seconds,
        )

    async def _submit_loop(self) -> None:
        while self._to_submit > 0:
            self._to_submit -= 1
            new = new_job(self._clock, ORG, self._analysis)
            job_id = new.job.job_id
            ended = self._ends[job_id] = asyncio.get_running_loop().create_future()
            self._began[job_id] = began = time.perf_counter()
            if not isinstance(await self._store.submit(new), Accepted):
                raise LanglaufError("the store refused a job of the benchmark")
            self._submits.append(time.perf_counter() - began)
            await ended

    def _free_slots(self) -> int:
        return self._slots - len(self._running)

    def _take(self, handed: ClaimBatch) -> None:
        for claim in handed.claims:
            self._starts.append(time.perf_counter() - self._began.pop(claim.lease.job_id))
            task = asyncio.create_task(self._run_job(claim))
            self._running.add(task)
            task.add_done_callback(self._on_done)

    async def _run_job(self, claim: Claim) -> None:
        end = self._ends.pop(claim.lease.job_id)
        shown = await self._store.record(claim.lease, Partial(result_id=new_id(), payload=RESULT, percent=50))
        if shown and await self._store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT)):
            end.set_result(None)
        else:
            end.set_exception(LanglaufError("an attempt of the benchmark lost its lease"))

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._hints.claim_again()


# -- results -----------------------------------------------------------------------------------------------------------

#: Reports progress: steps done, steps in all.
OnProgress = Callable[[int, int], None]


class DurationPercentiles(msgspec.Struct, frozen=True):
    """Durations in milliseconds: the median and the 99th percentile."""

    p50: float
    p99: float


def percentiles(seconds: Sequence[float]) -> DurationPercentiles:
    """Return the spread of durations that were measured in seconds."""
    ordered = sorted(seconds)
    return DurationPercentiles(*(round(ordered[int(share * (len(ordered) - 1))] * 1_000, 3) for share in (0.50, 0.99)))


def median_percentiles(spreads: Sequence[DurationPercentiles]) -> DurationPercentiles:
    """Return the medians of the spreads of several rounds."""
    return DurationPercentiles(
        statistics.median(one.p50 for one in spreads), statistics.median(one.p99 for one in spreads)
    )


class StoreResults(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs through the store, each submitted, claimed, completed with a partial result; medians of the rounds."""

    jobs: int
    concurrency: int
    #: of one small row each, one after the other: what the disk or server allows without group commit
    commits_per_second: float
    jobs_per_second: float
    #: durable writes of jobs per second, four to a job, against those commits
    writes_to_commits: float
    submit_ms: DurationPercentiles
    submit_to_start_ms: DurationPercentiles


class HttpResults(msgspec.Struct, frozen=True, kw_only=True):
    """The same over HTTP, server and worker in processes of their own; medians of the rounds."""

    jobs: int
    clients: int
    jobs_per_second: float
    submit_ms: DurationPercentiles
    submit_to_start_ms: DurationPercentiles
    #: status polls of finished jobs
    polls_per_second: float
    poll_ms: DurationPercentiles


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run; measurements that were not requested are None."""

    measured_at: str
    cores: int
    python: str
    #: the database and its version
    database: str
    store: StoreResults | None = None
    http: HttpResults | None = None


#: What is measured, the figure, and how.
ReportLine = tuple[str, str, str]
_HEADS = ("what", "figure", "how")


def lines_of(report: BenchReport) -> list[ReportLine]:
    """Return every figure of a report."""
    return (_store_lines(report.store) if report.store else []) + (_http_lines(report.http) if report.http else [])


def _store_lines(found: StoreResults) -> list[ReportLine]:
    where = f"store, {found.concurrency} jobs at once"
    return [
        (
            f"{where}: jobs/s",
            f"{found.jobs_per_second:,.0f}",
            "each submitted, claimed, completed with a partial result",
        ),
        (f"{where}: submit p50 / p99, ms", _spread(found.submit_ms), "until it is on disk"),
        (f"{where}: submit to start p50 / p99, ms", _spread(found.submit_to_start_ms), ""),
        ("commits of one row, one after the other, per s", f"{found.commits_per_second:,.0f}", "this disk or server"),
        ("durable writes of jobs to such commits: ratio", f"{found.writes_to_commits:.1f}", "the gain of group commit"),
    ]


def _http_lines(found: HttpResults) -> list[ReportLine]:
    where = f"HTTP, {found.clients} clients"
    return [
        (f"{where}: jobs/s", f"{found.jobs_per_second:,.0f}", "submitted, then polled with ?wait= to the end"),
        (f"{where}: submit p50 / p99, ms", _spread(found.submit_ms), ""),
        (f"{where}: submit to start p50 / p99, ms", _spread(found.submit_to_start_ms), "by the job's own times"),
        (f"{where}: status polls/s", f"{found.polls_per_second:,.0f}", "of finished jobs"),
        (f"{where}: status poll p50 / p99, ms", _spread(found.poll_ms), ""),
    ]


def _spread(found: DurationPercentiles) -> str:
    return f"{found.p50:.1f} / {found.p99:.1f}"


def heading(report: BenchReport) -> str:
    """Return when and on what it was measured."""
    cores = f"{report.cores} core" + ("s" if report.cores > 1 else "")
    return f"{report.measured_at[:10]}, {cores}, Python {report.python}, {report.database}"


def show_lines(title: str, lines: list[ReportLine], *, markdown: bool) -> None:
    """Print lines on standard output, for people or for a document."""
    if markdown:
        rows = [_HEADS, ("---", "---:", "---"), *lines]
        click.echo("\n".join([title, "", *("| " + " | ".join(row) + " |" for row in rows)]))
        return
    table = Table(title=title, title_justify="left")
    for name, justify in zip(_HEADS, ("left", "right", "left"), strict=True):
        table.add_column(name, justify="right" if justify == "right" else "left")
    for line in lines:
        table.add_row(*line)
    Console().print(table)


def as_json(report: BenchReport) -> str:
    """Return the report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
