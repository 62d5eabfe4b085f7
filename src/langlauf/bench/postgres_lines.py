"""What was measured on PostgreSQL, line by line: ratios first."""

from langlauf.bench.capacity import Capacity, Need, bytes_per_job, cost_per_job
from langlauf.bench.figures import Compared, Hosts, JobCost, Lifecycle, Modelled, Notify, Report

#: What was measured, the figure, and what to hold it against.
Line = tuple[str, str, str]
_BATCHES = (1, 10, 100, 500)


def postgres_lines(report: Report) -> list[Line]:
    """Every figure of a report that SQLite has not."""
    lines: list[Line] = []
    if report.lifecycle and report.lifecycle.cost:
        lines += _cost_lines(report.lifecycle, report.lifecycle.cost)
    for one in report.hosts or []:
        lines += _host_lines(one)
    for group in (report.compared or {}).values():
        for pair in group:
            lines += _compared_lines(pair)
    if report.notify:
        lines += _notify_lines(report.notify)
    if report.capacity:
        lines += _modelled_lines(report.capacity)
    return lines


def _cost_lines(found: Lifecycle, cost: JobCost) -> list[Line]:
    lines = [("client: processor time per job, µs", f"{cost.client_us:,.0f}", f"{found.processes} process(es)")]
    if cost.database_us is not None:
        stages = ", ".join(f"{name} {used:,.0f}" for name, used in cost.stages_us.items() if name != "other")
        lines.append(("database: processor time per job, µs", f"{cost.database_us:,.0f}", stages))
        raw = found.ceiling_cost.database_us if found.ceiling_cost else None
        if raw:
            ratio = f"{raw / cost.database_us:.2f}"
            lines.append(("database: processor time of the ceiling to the store's", ratio, f"{raw:,.0f} µs per job"))
    lines.append(("processors that other programs left", f"{cost.cores_left:.1f}", "judge jobs/s by it"))
    return lines


def _host_lines(one: Hosts) -> list[Line]:
    processes = "1 process" if one.processes == 1 else f"{one.processes} processes"
    used = f", database {one.cost.database_us:,.0f} µs per job" if one.cost and one.cost.database_us else ""
    return [
        (f"{processes} on one database: ratio to one", f"{one.ratio:.2f}", f"batches of {one.mean_batch:.0f}{used}"),
        (f"{processes} on one database: jobs/s", f"{one.jobs_per_second:,.0f}", ""),
    ]


def _compared_lines(pair: Compared) -> list[Line]:
    beside = " and ".join((pair.beside[0], pair.beside[-1]))
    used = "" if pair.processor_ratio is None else f"processor time of the store: {pair.processor_ratio:.2f}"
    wanted = "; ".join(word for word in (pair.wanted, used) if word)
    return [
        (f"{pair.what}, {beside}: ratio", f"{pair.ratio:.2f}", wanted),
        (f"{pair.what}, µs", " / ".join(f"{one:,.0f}" for one in pair.figures), ""),
    ]


def _notify_lines(found: Notify) -> list[Line]:
    where = f"{found.connections} connections"
    return [
        (f"NOTIFY in every commit, {where}: ratio", f"{found.each_commit_ratio:.2f}", "to commits without one"),
        (f"NOTIFY gathered on a connection apart, {where}: ratio", f"{found.gathered_ratio:.2f}", ""),
        (f"commits of one row, {where}, per s", f"{found.commits_per_second:,.0f}", ""),
    ]


def _modelled_lines(found: Modelled) -> list[Line]:
    costs = found.costs
    lines: list[Line] = [
        (
            f"model, {one.what}: predicted to measured",
            f"{one.ratio:.2f}",
            f"{one.predicted:,.0f} predicted, {one.measured:,.0f} measured",
        )
        for one in found.predictions
    ]
    for name, stage in costs.stages.items():
        figure = f"{stage.database.once:,.0f} + {stage.database.each:,.0f} n"
        client = f"client {stage.client.once:,.0f} + {stage.client.each:,.0f} n"
        lines.append((f"{name}, a batch of n: processor time of the database, µs", figure, client))
    for batch in _BATCHES:
        database, client_us = cost_per_job(costs, batch)
        lines.append((f"a job in batches of {batch}: database + client, µs", f"{database:,.0f} + {client_us:,.0f}", ""))
    disk = costs.disk
    parts = f"event {disk.per_event:,.0f}, result {disk.per_result:,.0f}, rest {disk.per_job:,.0f}"
    return [
        *lines,
        ("commit of one row, µs", f"{costs.commit_us:,.0f}", "median, until it is on disk"),
        ("disk per job of 4 events and 2 results, bytes", f"{bytes_per_job(disk, Need()):,.0f}", parts),
        ("write-ahead log per job, bytes", f"{disk.log_per_job:,.0f}", ""),
        ("connections per process", str(costs.connections_per_host), ""),
    ]


def capacity_lines(need: Need, found: Capacity) -> list[Line]:
    """What a deployment needs."""
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
