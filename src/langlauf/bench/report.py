"""The results of `langlauf bench`, and printing them as a table, as Markdown or as JSON."""

import statistics
from collections.abc import Callable, Sequence

import click
import msgspec
from rich.console import Console
from rich.table import Table

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
