"""What a run of the benchmark found, in the shape it is printed in."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

from langlauf.bench.capacity import Costs

#: Tells how far a measurement is: steps done, steps in all.
Watch = Callable[[int, int], None]
ORG = "bench-org"
ANALYSIS = "bench"


class Spread(msgspec.Struct, frozen=True):
    """How long something took, in milliseconds: half were quicker than p50, all but one in a hundred than p99."""

    p50: float
    p99: float


def spread(seconds: Sequence[float]) -> Spread:
    """The spread of durations that were measured in seconds."""
    ordered = sorted(seconds)
    return Spread(*(round(ordered[int(share * (len(ordered) - 1))] * 1_000, 3) for share in (0.50, 0.99)))


def median_spread(spreads: Sequence[Spread]) -> Spread:
    """The medians of the spreads of several rounds."""
    return Spread(statistics.median(one.p50 for one in spreads), statistics.median(one.p99 for one in spreads))


class JobCost(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time per job in microseconds: it changes less than durations do when others use the machine."""

    client_us: float
    #: of the connections' processes; None where they run on another machine
    database_us: float | None
    #: of that, by what the connection does: submit, claim, record
    stages_us: dict[str, float]
    #: processors that were left by programs that have nothing to do with the run
    cores_left: float


def median_cost(costs: Sequence[JobCost | None]) -> JobCost | None:
    """The medians over several rounds; None where one of them could not be told."""
    known = [one for one in costs if one is not None]
    if not known or len(known) < len(costs):
        return None
    database = [one.database_us for one in known if one.database_us is not None]
    stages = {name for one in known for name in one.stages_us}
    return JobCost(
        client_us=round(statistics.median(one.client_us for one in known), 1),
        database_us=round(statistics.median(database), 1) if len(database) == len(known) else None,
        stages_us={
            name: round(statistics.median(one.stages_us.get(name, 0.0) for one in known), 1) for name in sorted(stages)
        },
        cores_left=round(statistics.median(one.cores_left for one in known), 2),
    )


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of the store's lifecycle and the ceiling that was measured right after it."""

    jobs_per_second: float
    ceiling_jobs_per_second: float
    mean_batch: float
    submit_ms: Spread
    submit_to_start_ms: Spread
    cost: JobCost | None = None
    ceiling_cost: JobCost | None = None


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """Submit, claim, partial and complete through the store; medians over the rounds."""

    jobs: int
    concurrency: int
    jobs_per_second: float
    ceiling_jobs_per_second: float
    ratio_to_ceiling: float
    #: writes of jobs (four per job) in one transaction; the ceiling's group has the same size
    mean_batch: float
    submit_ms: Spread
    submit_to_start_ms: Spread
    rounds: list[Round]
    #: processes that submit, claim and record, each with a store of its own; the jobs in flight are those of all
    processes: int = 1
    cost: JobCost | None = None
    ceiling_cost: JobCost | None = None


class StoreCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the store itself takes for a job with a small input and a small result and no partial; medians of rounds."""

    jobs: int
    #: writes of one kind in a transaction
    batch: int
    payload_bytes: int
    #: microseconds of a processor per job: of the thread that writes, or of the database's connections; None where
    #: these are on another machine
    processor_us: float | None
    #: of that, by what is done: submit, claim, complete
    stages_us: dict[str, float]
    #: of all other processes of the database, for the same jobs
    background_us: float | None = None
    row_writes: float
    #: of a job that has ended, with all indexes
    bytes_per_job: float
    #: the same without the room that dead rows have left for later ones
    packed_bytes_per_job: float | None = None
    #: of the updates of jobs' rows, how many entered nothing in an index, by what they were for
    hot_shares: dict[str, float] | None = None


def median_store_cost(found: Sequence[StoreCost]) -> StoreCost:
    """The medians of several rounds, all of the same jobs."""

    def middle(figures: Sequence[float | None]) -> float | None:
        known = [one for one in figures if one is not None]
        return round(statistics.median(known), 3) if known and len(known) == len(figures) else None

    def by_name(dicts: Sequence[dict[str, float]]) -> dict[str, float]:
        return {name: round(statistics.median(one[name] for one in dicts), 3) for name in dicts[0]}

    shares = [one.hot_shares for one in found if one.hot_shares]
    return msgspec.structs.replace(
        found[0],
        processor_us=middle([one.processor_us for one in found]),
        stages_us=by_name([one.stages_us for one in found]),
        background_us=middle([one.background_us for one in found]),
        row_writes=middle([one.row_writes for one in found]),
        bytes_per_job=middle([one.bytes_per_job for one in found]),
        packed_bytes_per_job=middle([one.packed_bytes_per_job for one in found]),
        hot_shares=by_name(shares) if shares else None,
    )


class Http(msgspec.Struct, frozen=True, kw_only=True):
    """The same over HTTP, with the server in a process of its own."""

    jobs: int
    clients: int
    jobs_per_second: float
    #: against the ceiling of the same run, where that was measured
    ratio_to_ceiling: float | None
    submit_ms: Spread
    submit_to_start_ms: Spread
    #: from sending one job to seeing its end, nothing else going on
    unloaded_p50_ms: float


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What reads and writes cost beside a number of finished jobs, in microseconds each."""

    finished_jobs: int
    fill_seconds: float
    file_bytes: int
    #: GET of the same thousand jobs again and again, over HTTP, one at a time
    status_us: float
    #: the same without HTTP: the read alone, by way of the reader's thread
    status_read_us: float
    #: and 32 of them at once, each
    status_at_once_us: float
    #: jobs that were not asked for before: in a large store their pages are in no cache
    status_first_us: float
    first_page_us: float
    submit_and_claim_us: float


class Ratios(msgspec.Struct, frozen=True, kw_only=True):
    """The largest history against the smallest one: 1 means that the history costs nothing."""

    status: float
    status_read: float
    status_at_once: float
    status_first: float
    first_page: float
    submit_and_claim: float


class Polls(msgspec.Struct, frozen=True, kw_only=True):
    """Stores of different age, asked in turns."""

    histories: list[History]
    ratios: Ratios


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in databases that differ in one respect: medians in microseconds, and the last against the first."""

    what: str
    beside: list[str]
    figures: list[float]
    ratio: float
    #: the same of the database's processor time, which changes less when others use the machine
    processor_ratio: float | None = None
    wanted: str = ""


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of one row on many connections; the ratios are to commits that notify nobody."""

    connections: int
    commits_per_second: float
    #: a NOTIFY in every commit
    each_commit_ratio: float
    #: one connection apart that notifies every now and then
    gathered_ratio: float


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """The lifecycle with several processes on one database, all with the same number of jobs in flight together."""

    processes: int
    jobs_per_second: float
    #: against one process
    ratio: float
    mean_batch: float
    cost: JobCost | None


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """What the model of capacity says of the lifecycle of the same run, and what was measured of it."""

    what: str
    predicted: float
    measured: float
    ratio: float


class Modelled(msgspec.Struct, frozen=True, kw_only=True):
    """What writes cost, and whether that explains the lifecycle."""

    costs: Costs
    predictions: list[Predicted]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run. What was not asked for is None."""

    measured_at: str
    python: str
    sqlite: str
    cores: int
    #: the version of the server, where its store was measured
    postgres: str | None = None
    cost: StoreCost | None = None
    lifecycle: Lifecycle | None = None
    http: Http | None = None
    polls: Polls | None = None
    hosts: list[Hosts] | None = None
    #: by measurement: backlog, orgs, history, dead
    compared: dict[str, list[Compared]] | None = None
    notify: Notify | None = None
    capacity: Modelled | None = None
