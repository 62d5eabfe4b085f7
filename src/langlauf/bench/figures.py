"""What a run of `langlauf bench` found, in the shape of its JSON."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

#: Reports progress: steps done, steps in all.
Watch = Callable[[int, int], None]


class Spread(msgspec.Struct, frozen=True):
    """Durations in milliseconds: the median and the 99th percentile."""

    p50: float
    p99: float


def spread(seconds: Sequence[float]) -> Spread:
    """Return the spread of durations that were measured in seconds."""
    ordered = sorted(seconds)
    return Spread(*(round(ordered[int(share * (len(ordered) - 1))] * 1_000, 3) for share in (0.50, 0.99)))


def median_spread(spreads: Sequence[Spread]) -> Spread:
    """Return the medians of the spreads of several rounds."""
    return Spread(statistics.median(one.p50 for one in spreads), statistics.median(one.p99 for one in spreads))


class StoreFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs through the store, each submitted, claimed, shown in part and completed; medians of the rounds."""

    jobs: int
    concurrency: int
    #: of one small row, one after the other: what the disk or the server gives a program that does not gather
    commits_per_second: float
    jobs_per_second: float
    #: durable writes of jobs per second, four to a job, against those commits
    writes_to_commits: float
    submit_ms: Spread
    submit_to_start_ms: Spread


class HttpFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The same over HTTP, server and worker in processes of their own; medians of the rounds."""

    jobs: int
    clients: int
    jobs_per_second: float
    submit_ms: Spread
    submit_to_start_ms: Spread
    #: status polls of finished jobs
    polls_per_second: float
    poll_ms: Spread


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run. What was not asked for is None."""

    measured_at: str
    cores: int
    python: str
    #: the database and its version
    database: str
    store: StoreFigures | None = None
    http: HttpFigures | None = None
