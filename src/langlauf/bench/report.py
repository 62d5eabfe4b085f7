"""Prints what was measured: for people as a table, for documents as Markdown, for machines as JSON."""

import click
import msgspec
from rich.console import Console
from rich.table import Table

from langlauf.bench.figures import Http, Lifecycle, Polls, Report, StoreCost
from langlauf.bench.postgres_lines import Line, postgres_lines


def lines_of(report: Report) -> list[Line]:
    """Every figure of a report, ratios first."""
    lines: list[Line] = []
    if report.cost:
        lines += _cost_lines(report.cost)
    if report.lifecycle:
        wanted = "1/3 or more" if report.postgres else "0.5 or more at 64 jobs at once"
        lines += _lifecycle_lines(report.lifecycle, wanted)
    if report.http:
        lines += _http_lines(report.http)
    if report.polls:
        lines += _polls_lines(report.polls)
    return lines + postgres_lines(report)


def _cost_lines(found: StoreCost) -> list[Line]:
    where = f"a job in batches of {found.batch}"
    stages = ", ".join(f"{name} {used:,.0f}" for name, used in found.stages_us.items())
    processor = "not here" if found.processor_us is None else f"{found.processor_us:,.0f}"
    of_what = f"{found.payload_bytes} bytes of input and of result, no partial"
    lines = [
        (f"{where}: processor time of the store, µs", processor, stages),
        (f"{where}: rows written", f"{found.row_writes:.1f}", of_what),
        ("a job that has ended: bytes, with all indexes", f"{found.bytes_per_job:,.0f}", of_what),
    ]
    if found.background_us is not None:
        name = f"{where}: processor time of the server's other processes, µs"
        lines.insert(1, (name, f"{found.background_us:,.0f}", "log, checkpoints, vacuum, and whoever else uses it"))
    if found.packed_bytes_per_job is not None:
        without = "without the room that dead rows left for others"
        lines.append(("a job that has ended: bytes, packed", f"{found.packed_bytes_per_job:,.0f}", without))
    for kind, share in (found.hot_shares or {}).items():
        lines.append((f"{kind}: share of updates that enter nothing in an index", f"{share:.2f}", "HOT"))
    return lines


def _lifecycle_lines(found: Lifecycle, wanted: str) -> list[Line]:
    where = f"store, {found.concurrency} jobs at once"
    return [
        (f"{where}: ratio to the raw ceiling", f"{found.ratio_to_ceiling:.2f}", wanted),
        (
            f"{where}: jobs/s",
            f"{found.jobs_per_second:,.0f}",
            f"medians of {len(found.rounds)} rounds, each beside its ceiling",
        ),
        ("raw ceiling: jobs/s", f"{found.ceiling_jobs_per_second:,.0f}", f"groups of {found.mean_batch:.0f}"),
        (f"{where}: submit p50 / p99, ms", f"{found.submit_ms.p50:.1f} / {found.submit_ms.p99:.1f}", ""),
        (
            f"{where}: submit to start p50 / p99, ms",
            f"{found.submit_to_start_ms.p50:.1f} / {found.submit_to_start_ms.p99:.1f}",
            "",
        ),
    ]


def _http_lines(found: Http) -> list[Line]:
    where = f"HTTP, {found.clients} clients"
    ratio = "not measured" if found.ratio_to_ceiling is None else f"{found.ratio_to_ceiling:.2f}"
    return [
        (f"{where}: ratio to the raw ceiling", ratio, ""),
        (f"{where}: jobs/s", f"{found.jobs_per_second:,.0f}", "submitted, then polled with ?wait= to the end"),
        (
            f"{where}: submit p50 / p99, ms",
            f"{found.submit_ms.p50:.1f} / {found.submit_ms.p99:.1f}",
            "p99 under 50 with 32 clients",
        ),
        (
            f"{where}: submit to start p50 / p99, ms",
            f"{found.submit_to_start_ms.p50:.1f} / {found.submit_to_start_ms.p99:.1f}",
            "",
        ),
        ("HTTP, one job alone: p50, ms", f"{found.unloaded_p50_ms:.1f}", "from sending it to seeing its end"),
    ]


def _polls_lines(found: Polls) -> list[Line]:
    small, large = found.histories[0], found.histories[-1]
    sizes = f"{small.finished_jobs:,} and {large.finished_jobs:,} finished jobs"
    ratios = found.ratios
    filled = "; ".join(
        f"{one.finished_jobs:,}: {one.fill_seconds:.1f} s, {one.file_bytes / 1e6:,.0f} MB" for one in found.histories
    )
    return [
        (f"status poll, {sizes}: ratio", f"{ratios.status:.2f}", "under 1.3"),
        ("status poll, µs", _pair(small.status_us, large.status_us), "GET over HTTP, the same 1,000 jobs"),
        ("read of a status alone: ratio", f"{ratios.status_read:.2f}", "without HTTP"),
        ("read of a status alone, µs", _pair(small.status_read_us, large.status_read_us), ""),
        ("read of a status, 32 at once: ratio", f"{ratios.status_at_once:.2f}", ""),
        ("read of a status, 32 at once, µs each", _pair(small.status_at_once_us, large.status_at_once_us), ""),
        ("first look at a job: ratio", f"{ratios.status_first:.2f}", "its pages are in no cache of the store"),
        ("first look at a job, µs", _pair(small.status_first_us, large.status_first_us), ""),
        ("first page of the jobs: ratio", f"{ratios.first_page:.2f}", ""),
        ("first page of the jobs, µs", _pair(small.first_page_us, large.first_page_us), "50 jobs"),
        ("submit and claim: ratio", f"{ratios.submit_and_claim:.2f}", ""),
        (
            "submit and claim, µs",
            _pair(small.submit_and_claim_us, large.submit_and_claim_us),
            "one at a time, two commits",
        ),
        ("filling the stores", filled, "not part of any figure"),
    ]


def _pair(small: float, large: float) -> str:
    return f"{small:,.0f} / {large:,.0f}"


def heading(report: Report) -> str:
    """When and on what it was measured."""
    cores = f"{report.cores} core" + ("s" if report.cores > 1 else "")
    store = f"PostgreSQL {report.postgres}" if report.postgres else f"SQLite {report.sqlite}"
    return f"{report.measured_at[:10]}, {cores}, Python {report.python}, {store}"


def show_lines(title: str, lines: list[Line], *, markdown: bool) -> None:
    """Lines on standard output, for people or for a document."""
    if markdown:
        click.echo(_markdown(title, lines))
        return
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("wanted, or how", style="dim")
    for line in lines:
        table.add_row(*line)
    Console().print(table)


def _markdown(title: str, lines: list[Line]) -> str:
    rows = [("what", "figure", "wanted, or how"), ("---", "---:", "---"), *lines]
    return "\n".join([title, "", *("| " + " | ".join(row) + " |" for row in rows)])


def as_json(report: Report) -> str:
    """Everything, rounds included."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
