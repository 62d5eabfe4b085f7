"""What a deployment carries, computed from what the section `scaling` measured."""

from pathlib import Path

import msgspec

from bench.results import load
from bench.store.capacity import Capacity, Costs, Need, capacity
from langlauf.bench.rounds import ReportLine, show_lines
from langlauf.domain.errors import LanglaufError


def show_capacity(file: Path) -> None:
    """Print what is needed, as a file of JSON describes it, and what would carry it."""
    measured = load().get("scaling")
    if measured is None or "costs" not in measured.extra:
        raise LanglaufError("nothing was measured yet: run the section scaling first")
    try:
        need = msgspec.json.decode(file.read_bytes(), type=Need)
    except msgspec.DecodeError as error:
        raise LanglaufError(f"{file} does not say what is needed: {error}") from error
    costs = msgspec.convert(measured.extra["costs"], Costs)
    heading = f"Computed from what was measured on {measured.measured_at[:10]}"
    show_lines(heading, capacity_lines(need, capacity(costs, need)), markdown=False)


def capacity_lines(need: Need, found: Capacity) -> list[ReportLine]:
    """Return what a deployment needs."""
    shared = "shared by database and clients" if need.client_cores is None else "of the database"
    return [
        (
            "jobs/s asked for",
            f"{need.jobs_per_second:,.0f}",
            f"{need.hosts} process(es), batches of {found.batch:,.1f}",
        ),
        ("database: processor time per job, µs", f"{found.database_us_per_job:,.0f}", ""),
        ("client: processor time per job, µs", f"{found.client_us_per_job:,.0f}", ""),
        ("load of the database's processors", f"{found.database_load:.2f}", f"{need.database_cores:g} {shared}"),
        ("load of the clients", f"{found.client_load:.2f}", "over 1: more processes or processors"),
        ("load of claims, which take turns", f"{found.claims_load:.2f}", "in the largest batches"),
        ("most jobs/s", f"{found.most_jobs_per_second:,.0f}", f"{need.in_flight:g} jobs in flight"),
        ("connections", str(found.connections), ""),
        ("write-ahead log, MB/s", f"{found.log_bytes_per_second / 1e6:,.1f}", ""),
        ("disk, GB", f"{found.disk_bytes / 1e9:,.1f}", f"{need.days_kept:g} days kept"),
    ]
