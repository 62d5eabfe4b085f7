"""A model of what a deployment carries: what a write costs, and what follows from it. Pure arithmetic.

Every write goes in a batch. A batch costs something once and something for each of its writes, in the database and in
the process that sends it. Those costs are measured; throughput, connections and disk follow, for this machine or for
another one whose processors are so many times as fast.
"""

from collections.abc import Sequence

import msgspec

#: The writes of a plain job's life, in order.
LIFE = ("submit", "claim", "partial", "complete")
#: Heartbeats of the jobs that run.
RENEW = "renew"
LARGEST_BATCH = 1_000.0
_MICRO = 1e6
_DAY = 86_400


class Line(msgspec.Struct, frozen=True):
    """What a batch costs in microseconds: so much once, and so much for each write in it."""

    once: float
    each: float

    def of_batch(self, size: float) -> float:
        """Return a batch of that size."""
        return self.once + self.each * size

    def per_write(self, size: float) -> float:
        """Return one write in a batch of that size."""
        return self.of_batch(size) / size


def fitted(points: Sequence[tuple[float, float]]) -> Line:
    """Fit a line through sizes and costs of batches. Errors are relative, so that small batches weigh as much."""
    weighed = [(1 / (cost * cost), size, cost) for size, cost in points]
    whole = sum(weight for weight, _, _ in weighed)
    size_at = sum(weight * size for weight, size, _ in weighed) / whole
    cost_at = sum(weight * cost for weight, _, cost in weighed) / whole
    spread = sum(weight * (size - size_at) ** 2 for weight, size, _ in weighed)
    slope = sum(weight * (size - size_at) * (cost - cost_at) for weight, size, cost in weighed)
    each = slope / spread if spread else cost_at / size_at
    return Line(round(max(0.0, cost_at - each * size_at), 2), round(each, 3))


class StageCost(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of write: processor time in the database, and in the process that sends it."""

    database: Line
    client: Line


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on disk, indexes included."""

    #: its row, its input and its message
    per_job: float
    per_event: float
    per_result: float
    #: of the write-ahead log, for the whole life of a job
    log_per_job: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured: all that the model knows."""

    stages: dict[str, StageCost]
    #: until a commit of one small row is on disk
    commit_us: float
    disk: Disk
    connections_per_host: int


class Need(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a deployment. The defaults are plain jobs on a machine as small as the one in the documents."""

    jobs_per_second: float = 100.0
    #: processors of the database; of all processes that send to it, or None where they share the database's
    database_cores: float = 2.0
    client_cores: float | None = None
    #: how many times as fast those are as the ones that were measured
    speed: float = 1.0
    #: processes with a store of their own
    hosts: int = 1
    #: jobs that wait for an answer of the store at once, over all hosts, when it is busiest
    in_flight: float = 500.0
    partials_per_job: float = 1.0
    events_per_job: float = 4.0
    results_per_job: float = 2.0
    #: of an input or a result, beyond those that were measured, which are tiny
    payload_bytes: float = 0.0
    run_seconds: float = 0.0
    heartbeat_seconds: float = 5.0
    days_kept: float = 30.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What follows. A load over 1 cannot be met."""

    #: how many writes of one kind go together at the rate that is asked for
    batch: float
    database_us_per_job: float
    client_us_per_job: float
    #: of the database's processors, and of the clients'
    database_load: float
    client_load: float
    #: of the time, in which claims take turns, once batches are as large as they get
    claims_load: float
    most_jobs_per_second: float
    connections: int
    log_bytes_per_second: float
    disk_bytes: float


def cost_per_job(costs: Costs, batch: float, need: Need | None = None) -> tuple[float, float]:
    """Microseconds of the database and of the client for a job whose writes go in batches of that size."""
    need = need or Need()
    times = {name: need.partials_per_job if name == "partial" else 1.0 for name in LIFE}
    times[RENEW] = need.run_seconds / need.heartbeat_seconds
    found = [(often, costs.stages[name]) for name, often in times.items() if often]
    database = sum(often * stage.database.per_write(batch) for often, stage in found)
    client = sum(often * stage.client.per_write(batch) for often, stage in found)
    return database / need.speed, client / need.speed


def claim_us_per_job(costs: Costs, batch: float, need: Need | None = None) -> float:
    """Return how long a claim blocks others per job: its work, and the time until that is on disk."""
    speed = need.speed if need else 1.0
    return (costs.stages["claim"].database.of_batch(batch) / speed + costs.commit_us) / batch


def most_jobs_per_second(costs: Costs, batch: float, need: Need) -> float:
    """Return the least of: what processors carry, what processes do one after the other, and claims, which take turns.

    The jobs of a busy process travel together, each stage in one batch: it computes, or the database does, or the disk.
    """
    database, client = cost_per_job(costs, batch, need)
    together = database + client + len(LIFE) * costs.commit_us / batch
    bounds = [need.hosts / together, 1 / claim_us_per_job(costs, batch, need)]
    if need.client_cores is None:
        bounds.append(need.database_cores / (database + client))
    else:
        bounds += [need.database_cores / database, need.client_cores / client]
    return min(bounds) * _MICRO


def batch_at(costs: Costs, need: Need) -> float:
    """Return how many writes of one kind meet on a host: those that come while a batch is under way go into the next.

    Claims wait for those of the other hosts as well.
    """
    meeting = [1.0]
    for name in LIFE:
        line = costs.stages[name].database
        rate = need.jobs_per_second / (1 if name == "claim" else need.hosts) / _MICRO
        left = 1 - rate * line.each / need.speed
        waiting = rate * (line.once / need.speed + costs.commit_us)
        meeting.append(waiting / left if left > 0 else LARGEST_BATCH)
    return min(max(meeting), LARGEST_BATCH)


def capacity(costs: Costs, need: Need) -> Capacity:
    """Return what a rate costs, and what the same machines could carry at most."""
    batch = batch_at(costs, need)
    database, client = cost_per_job(costs, batch, need)
    rate = need.jobs_per_second / _MICRO
    database_work = rate * (database + (client if need.client_cores is None else 0.0))
    full = min(LARGEST_BATCH, max(1.0, need.in_flight / need.hosts))
    return Capacity(
        batch=round(batch, 1),
        database_us_per_job=round(database, 1),
        client_us_per_job=round(client, 1),
        database_load=round(database_work / need.database_cores, 3),
        client_load=round(rate * client / min(need.hosts, need.client_cores or need.database_cores), 3),
        claims_load=round(rate * claim_us_per_job(costs, full, need), 3),
        most_jobs_per_second=round(most_jobs_per_second(costs, full, need)),
        connections=costs.connections_per_host * need.hosts,
        log_bytes_per_second=round(need.jobs_per_second * (costs.disk.log_per_job + 2 * need.payload_bytes)),
        disk_bytes=round(bytes_per_job(costs.disk, need) * need.jobs_per_second * _DAY * need.days_kept),
    )


def bytes_per_job(disk: Disk, need: Need) -> float:
    """Return what is kept of a job."""
    rows = disk.per_job + need.events_per_job * disk.per_event + need.results_per_job * disk.per_result
    return rows + (1 + need.results_per_job) * need.payload_bytes
