"""The sections: what each measures, how long it may take, and how its part of the page reads."""

from typing import Any

import msgspec

_BEST_QUEUE = ("Huey + Redis", "Huey + SQLite", "pgqueuer, batch 100")
_QUEUES = ("huey", "pgqueuer", "arq", "procrastinate", "bare")
_MINUTE = 60


class FigureColumn(msgspec.Struct, frozen=True):
    """A figure of each subject."""

    figure: str
    heading: str
    digits: int = 0


class Ratio(msgspec.Struct, frozen=True):
    """A figure against that of the best of some subjects."""

    figure: str
    heading: str
    against: tuple[str, ...]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section. Without columns its table has a row for each figure, and a column for each subject."""

    title: str
    #: module and function
    measure: str
    minutes: int
    text: str
    #: what the project asks of itself
    wanted: str = ""
    services: tuple[str, ...] = ("postgres",)
    environments: tuple[str, ...] = ()
    columns: tuple[FigureColumn, ...] = ()
    ratio: Ratio | None = None
    #: whether it matters what is on disk when a job counts
    on_disk: bool = False
    #: the figure that the chart shows
    chart: str = ""

    @property
    def limit_seconds(self) -> float:
        """After this long no further subject is measured."""
        return self.minutes * float(_MINUTE)


def _queue_section(**values: Any) -> Section:
    """Return a section that compares all queues, each with the store of its own."""
    return Section(services=("postgres", "redis"), environments=_QUEUES, on_disk=True, **values)


SECTIONS = {
    "library": _queue_section(
        title="Library, end to end",
        measure="bench.sections.library:measure_end_to_end",
        minutes=25,
        text="A no-op, enqueued by one process through the library (32 at once where it is asynchronous) and run "
        "by one worker: from the first enqueue until the queue's own store has the end of all jobs. "
        "Langlauf stores every event and the result; its worker is in the same process, or, as *worker "
        "apart* says, a process of its own as with all peers.",
        wanted="at least 3 times the best of Huey and pgqueuer on both stores; aim 5",
        columns=(FigureColumn("jobs_per_second", "jobs/s"),),
        ratio=Ratio("jobs_per_second", "to the best of Huey and pgqueuer", _BEST_QUEUE),
        chart="jobs_per_second",
    ),
    "drain": _queue_section(
        title="Drain of a backlog",
        measure="bench.sections.library:measure_drain",
        minutes=20,
        text="The same no-ops wait before the worker starts: from the first start until the store has the end of all.",
        wanted="at least as fast as pgqueuer with batches of 100; aim 1.5 times",
        columns=(
            FigureColumn("drained_per_second", "jobs/s"),
            FigureColumn("enqueued_per_second", "enqueued/s before"),
        ),
        ratio=Ratio("drained_per_second", "to pgqueuer", ("pgqueuer, batch 100",)),
        chart="drained_per_second",
    ),
    "latency": _queue_section(
        title="Start latency",
        measure="bench.sections.library:measure_latency",
        minutes=25,
        text="50 jobs a second, a warm worker: from the call that enqueues a job to the first line of its function.",
        wanted="p50 / p99 at most 2 / 6 ms on SQLite, 3 / 8 ms on PostgreSQL",
        columns=(FigureColumn("p50_ms", "p50, ms", 1), FigureColumn("p99_ms", "p99, ms", 1)),
        chart="p99_ms",
    ),
    "http": Section(
        title="Whole HTTP stack",
        measure="bench.sections.http:measure_stacks",
        minutes=20,
        services=("postgres", "redis"),
        environments=("arq", "procrastinate", "bare", "client"),
        text="One client process (aiohttp, 32 at once) submits all jobs, then polls each every 20 ms until it "
        "has ended; one server process and one worker. *Alone* is one job at a time, from sending it to "
        "seeing its end.",
        wanted="at least 1.6 times FastAPI + arq on both stores, aim 2; submit p99 not above theirs",
        columns=(
            FigureColumn("jobs_per_second", "jobs/s"),
            FigureColumn("submit_p50_ms", "submit p50, ms", 1),
            FigureColumn("submit_p99_ms", "submit p99, ms", 1),
            FigureColumn("alone_p50_ms", "alone p50, ms", 1),
        ),
        ratio=Ratio("jobs_per_second", "to FastAPI + arq", ("FastAPI + arq",)),
        on_disk=True,
        chart="jobs_per_second",
    ),
    "polls": Section(
        title="Status polls",
        measure="bench.sections.http:measure_polls",
        minutes=10,
        services=("postgres", "wrk"),
        environments=("bare",),
        text="`GET` of a finished job under wrk, 32 connections. Bare Starlette + msgspec answers the same "
        "document on the same server program, and looks nothing up. Processor time is that of the server "
        "with its children.",
        wanted="0.6 of bare Starlette on SQLite, 0.5 on PostgreSQL",
        columns=(
            FigureColumn("per_second", "polls/s"),
            FigureColumn("p50_ms", "p50, ms", 1),
            FigureColumn("p99_ms", "p99, ms", 1),
            FigureColumn("processor_us", "processor, µs each"),
            FigureColumn("health_per_second", "`/health`, per s"),
        ),
        ratio=Ratio("per_second", "to bare Starlette", ("bare Starlette + msgspec",)),
        chart="per_second",
    ),
    "posts": Section(
        title="Durable submissions",
        measure="bench.sections.http:measure_posts",
        minutes=10,
        services=("postgres", "redis", "wrk"),
        environments=("arq", "bare"),
        text="`POST` under wrk, 32 connections, while the worker drains what was submitted.",
        wanted="at least 2,000 per s on SQLite, 2,500 on PostgreSQL",
        on_disk=True,
        columns=(
            FigureColumn("per_second", "submissions/s"),
            FigureColumn("p50_ms", "p50, ms", 1),
            FigureColumn("p99_ms", "p99, ms", 1),
        ),
        chart="per_second",
    ),
    "idle": Section(
        title="Idle server",
        measure="bench.sections.idle:measure_idle",
        minutes=15,
        services=("postgres", "redis"),
        environments=("arq", "procrastinate"),
        text="A server and its worker that have nothing to do, with all their children: share of a processor "
        "over 20 s, proportional memory (PSS), and the time from starting the program until it answers that "
        "it is ready.",
        wanted="under 0.5 % of a core, under 90 MiB, ready within 0.8 s",
        columns=(
            FigureColumn("processor_percent", "% of a core", 2),
            FigureColumn("memory_mib", "MiB"),
            FigureColumn("ready_seconds", "ready after, s", 2),
        ),
        chart="memory_mib",
    ),
    "streams": Section(
        title="Idle streams",
        measure="bench.sections.idle:measure_streams",
        minutes=15,
        environments=("bare",),
        text="2,000 event streams of a job in which nothing happens: memory of the server for each, and its "
        "share of a processor.",
        wanted="under 13 KiB each",
        columns=(FigureColumn("kib_per_stream", "KiB each", 1), FigureColumn("processor_percent", "% of a core", 1)),
        chart="kib_per_stream",
    ),
    "cost": Section(
        title="Cost of a job in the store",
        measure="bench.sections.store:measure_store_cost",
        minutes=15,
        text="Jobs with 300 bytes of input and of result and without partials are submitted, claimed and "
        "completed in batches of exactly 32, nothing else going on. Processor time is that of the thread "
        "that writes, on PostgreSQL that of the connections' processes; rows are counted by the database; "
        "bytes are what files have grown by, with all indexes. Then 64 jobs in flight through the store, "
        "each with a partial, beside a raw ceiling: a bare loop that writes the same rows into the same "
        "schema in groups of the same size, and looks nothing up.",
        wanted="130 µs on SQLite, 250 on PostgreSQL; 8 rows; 1.8 KB on SQLite; over 0.9 of a running job's updates HOT",
    ),
    "growth": Section(
        title="Growth",
        measure="bench.sections.store:measure_growth",
        minutes=90,
        text="Stores with few and with many jobs of a thousand orgs are asked the same in turns; what is claimed "
        "is completed and submitted again. *Taken*: claims before and after many jobs were taken while a "
        "transaction that reads is held open, so that nothing of them can be cleaned away; beside it, the "
        "first entry of an index as a queue without lanes asks for it.",
        wanted="at most 1.3 for one job and for a status, 1.5 for claims of fifty, 2 beside a transaction that is "
        "held open",
    ),
    "scaling": Section(
        title="What one PostgreSQL carries",
        measure="bench.sections.store:measure_scaling",
        minutes=60,
        text="500 jobs in flight, in one and in several processes; claims beside an org that its limit holds "
        "back, and with few and many orgs; NOTIFY; and what a model says of the first from the cost of "
        "single batches ([scaling.md](scaling.md#a-model-to-compute-with)).",
    ),
    "retention": Section(
        title="Retention beside submissions",
        measure="bench.sections.store:measure_retention",
        minutes=90,
        text="A store of 200,000 jobs, over a million of whose rows are too old. 100 jobs a second are "
        "submitted, by turns with nothing else going on and while the clean-up works in the same process; "
        "then it goes on to its end.",
        wanted="submit p99 beside it at most 1.5 times that without",
    ),
}
#: Names for several sections.
GROUPS = {
    "all": tuple(SECTIONS),
    "peers": ("library", "drain", "latency", "http", "polls", "posts", "idle", "streams"),
    "store": ("cost", "growth"),
}


def select_sections(words: str) -> list[str]:
    """Return the sections that names with commas between them mean, in the order of the page."""
    names = {name for word in words.split(",") for name in GROUPS.get(word, (word,))}
    if unknown := sorted(names - SECTIONS.keys()):
        raise ValueError(f"no section is called {unknown[0]}; there are {', '.join((*SECTIONS, *GROUPS))}")
    return [name for name in SECTIONS if name in names]
