"""Prints what was measured: for people as a table, for documents as Markdown, for machines as JSON."""

import click
import msgspec
from rich.console import Console
from rich.table import Table

from langlauf.bench.figures import HttpFigures, Report, Spread, StoreFigures

#: What was measured, the figure, and how.
Line = tuple[str, str, str]
_HEADS = ("what", "figure", "how")


def lines_of(report: Report) -> list[Line]:
    """Return every figure of a report."""
    return (_store_lines(report.store) if report.store else []) + (_http_lines(report.http) if report.http else [])


def _store_lines(found: StoreFigures) -> list[Line]:
    where = f"store, {found.concurrency} jobs at once"
    return [
        (f"{where}: jobs/s", f"{found.jobs_per_second:,.0f}", "each submitted, claimed, shown in part and completed"),
        (f"{where}: submit p50 / p99, ms", _spread(found.submit_ms), "until it is on disk"),
        (f"{where}: submit to start p50 / p99, ms", _spread(found.submit_to_start_ms), ""),
        ("commits of one row, one after the other, per s", f"{found.commits_per_second:,.0f}", "this disk or server"),
        ("durable writes of jobs to such commits: ratio", f"{found.writes_to_commits:.1f}", "what gathering brings"),
    ]


def _http_lines(found: HttpFigures) -> list[Line]:
    where = f"HTTP, {found.clients} clients"
    return [
        (f"{where}: jobs/s", f"{found.jobs_per_second:,.0f}", "submitted, then polled with ?wait= to the end"),
        (f"{where}: submit p50 / p99, ms", _spread(found.submit_ms), ""),
        (f"{where}: submit to start p50 / p99, ms", _spread(found.submit_to_start_ms), "by the job's own times"),
        (f"{where}: status polls/s", f"{found.polls_per_second:,.0f}", "of finished jobs"),
        (f"{where}: status poll p50 / p99, ms", _spread(found.poll_ms), ""),
    ]


def _spread(found: Spread) -> str:
    return f"{found.p50:.1f} / {found.p99:.1f}"


def heading(report: Report) -> str:
    """Return when and on what it was measured."""
    cores = f"{report.cores} core" + ("s" if report.cores > 1 else "")
    return f"{report.measured_at[:10]}, {cores}, Python {report.python}, {report.database}"


def show_lines(title: str, lines: list[Line], *, markdown: bool) -> None:
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


def as_json(report: Report) -> str:
    """Return everything."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
