"""Library: jobs enqueued by one process and run by a worker, through each peer's own API; no HTTP."""

import msgspec

from bench.context import Context
from bench.environments import OWN
from bench.results import Measured
from bench.sections.rounds import run_rounds
from bench.stack import PEERS, REDIS_SYNCED, SYNCED, fresh_store, peer_environment, run_peer

_WAIT_SECONDS = 60
_LATENCY_JOBS = 500


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its module, its environment, and how many jobs a round has."""

    name: str
    environment: str
    module: str
    jobs: int
    needs: tuple[str, ...] = ()
    on_disk: str = SYNCED
    #: Langlauf alone: whether its worker is a process of its own
    apart: bool = False


_TOGETHER = (
    Peer(name="Langlauf, SQLite", environment=OWN, module="langlauf_library", jobs=5_000),
    Peer(name="Langlauf, PostgreSQL", environment=OWN, module="langlauf_library", jobs=5_000, needs=("postgres",)),
)
_APART = tuple(msgspec.structs.replace(one, name=f"{one.name}, worker apart", apart=True) for one in _TOGETHER)
_PEERS = (
    Peer(
        name="Huey + Redis",
        environment="huey",
        module="huey_redis",
        jobs=5_000,
        needs=("redis",),
        on_disk=REDIS_SYNCED,
    ),
    Peer(
        name="Huey + SQLite",
        environment="huey",
        module="huey_sqlite",
        jobs=5_000,
        on_disk="synced / synced, with result",
    ),
    Peer(
        name="pgqueuer, batch 100",
        environment="pgqueuer",
        module="pgqueuer_postgres",
        jobs=10_000,
        needs=("postgres",),
        on_disk="synced / synced, no result",
    ),
    Peer(name="arq", environment="arq", module="arq_redis", jobs=5_000, needs=("redis",), on_disk=REDIS_SYNCED),
    Peer(
        name="Procrastinate",
        environment="procrastinate",
        module="procrastinate_postgres",
        jobs=2_000,
        needs=("postgres",),
        on_disk="synced / synced, no result",
    ),
    Peer(
        name="bare prototype, SQLite",
        environment="bare",
        module="bare_sqlite",
        jobs=10_000,
    ),
    Peer(
        name="bare prototype, PostgreSQL",
        environment="bare",
        module="bare_postgres",
        jobs=10_000,
        needs=("postgres",),
    ),
)
ENVIRONMENTS = ("huey", "pgqueuer", "arq", "procrastinate", "bare")


def measure_end_to_end(context: Context, found: Measured) -> None:
    """One enqueue per job until the peer's own store has the end of all."""
    run_rounds(context, found, (*_TOGETHER, *_APART, *_PEERS), lambda peer: _phase(context, peer, "e2e", peer.jobs))


def measure_drain(context: Context, found: Measured) -> None:
    """A worker that finds a backlog."""
    run_rounds(context, found, (*_APART, *_PEERS), lambda peer: _phase(context, peer, "drain", peer.jobs))


def measure_latency(context: Context, found: Measured) -> None:
    """From enqueuing to the start, 50 jobs a second."""
    run_rounds(
        context, found, (*_TOGETHER, *_APART, *_PEERS), lambda peer: _phase(context, peer, "latency", _LATENCY_JOBS)
    )


def _phase(context: Context, peer: Peer, phase: str, jobs: int) -> dict[str, float]:
    marks = context.data / "marks"
    marks.unlink(missing_ok=True)
    surroundings = peer_environment(context, marks)
    if peer.apart:
        surroundings["BENCH_WORKER"] = "apart"
    words = [str(PEERS / "run.py"), peer.module, phase, str(context.of_jobs(jobs)), str(_WAIT_SECONDS)]
    with fresh_store(context, peer.needs, context.data / "library.db") as store:
        if peer.environment == OWN:
            surroundings |= {
                "LANGLAUF_STORE": store,
                "LANGLAUF_LOG_LEVEL": "error",
                "LANGLAUF_MAX_RUNNING": "100",
            }
        said = run_peer(peer.environment, words, surroundings, seconds=4 * _WAIT_SECONDS)
    return msgspec.json.decode(said, type=dict[str, float])
