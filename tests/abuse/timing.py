"""Does the time of an answer tell a foreign id from an unknown one? Measured on a real server, over loopback."""

import asyncio
import math
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import msgspec

from langlauf.clock import new_id
from tests.faults.plan import Plan
from tests.faults.report import Figure
from tests.support.server import serving

PAIRS = 1_000
#: Where chance alone explains the difference, or it is too small to be of use: both as agreed for this product.
LEAST_P = 0.01
LARGEST_SHARE = 0.05
_WARM_UP = 50
#: What is asked with an id; the word is the name in the table.
ASKED = {
    "status": ("GET", "/analyze/jobs/{job}"),
    "events": ("GET", "/analyze/jobs/{job}/events"),
    "result": ("GET", "/analyze/results/{result}"),
    "cancel": ("POST", "/analyze/jobs/{job}/cancel"),
    "retry": ("POST", "/analyze/jobs/{job}/retry"),
}


class Figures(msgspec.Struct, frozen=True):
    """One operation: two samples, and whether anybody could tell them apart."""

    operation: str
    pairs: int
    median_foreign_us: float
    median_unknown_us: float
    iqr_us: float
    p: float

    @property
    def share(self) -> float:
        """The difference of the medians as a share of the spread."""
        return abs(self.median_foreign_us - self.median_unknown_us) / self.iqr_us

    @property
    def alike(self) -> bool:
        """Whether the promise holds."""
        return self.p > LEAST_P or self.share < LARGEST_SHARE


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of the Mann-Whitney U test: normal approximation, corrected for ties and for continuity."""
    marked = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    rank_sum, ties, start, total = 0.0, 0.0, 0, len(marked)
    while start < total:
        end = start
        while end < total and marked[end][0] == marked[start][0]:
            end += 1
        same = end - start
        middle = (start + 1 + end) / 2
        rank_sum += middle * sum(1 for _, sample in marked[start:end] if sample == 0)
        ties += same**3 - same
        start = end
    one, other = len(first), len(second)
    deviation = abs(rank_sum - one * (one + 1) / 2 - one * other / 2)
    variance = one * other / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return math.erfc(max(deviation - 0.5, 0.0) / math.sqrt(variance) / math.sqrt(2))


def measure(folder: Path, *, pairs: int = PAIRS, seed: int = 0) -> list[Figures]:
    """Two samples for each operation, drawn in turns of random order on one connection."""
    drawn = random.Random(seed)
    with (
        serving(folder / "store.db") as server,
        httpx2.Client(base_url=server.url, timeout=60, trust_env=False) as client,
    ):
        job_id, result_id = _make(client)
        found = []
        for name, (method, path) in ASKED.items():
            samples: dict[bool, list[float]] = {True: [], False: []}
            for number in range(pairs + _WARM_UP):
                for foreign in drawn.sample((True, False), 2):
                    job, result = (job_id, result_id) if foreign else (new_id(), new_id())
                    took = _ask(client, method, path.format(job=job, result=result))
                    if number >= _WARM_UP:
                        samples[foreign].append(took)
            found.append(_figures(name, samples[True], samples[False]))
        return found


def _make(client: httpx2.Client) -> tuple[str, str]:
    """A job of the owner with events, partial snapshots and a result."""
    body = {"analysis": "steps", "input": {"count": 5}}
    made = client.post("/analyze", json=body, headers={"X-Org-Id": "owner"}).json()
    return made["job_id"], made["result_id"]


def _ask(client: httpx2.Client, method: str, path: str) -> float:
    """Microseconds until the whole answer is there; it must be the one 404."""
    request = client.build_request(method, path, headers={"X-Org-Id": "stranger"})
    started = time.perf_counter_ns()
    response = client.send(request)
    took = time.perf_counter_ns() - started
    if response.status_code != 404:
        raise AssertionError(f"{method} {path} is {response.status_code}")
    return took / 1_000


def _figures(name: str, foreign: list[float], unknown: list[float]) -> Figures:
    low, _, high = statistics.quantiles(foreign + unknown, n=4)
    return Figures(
        name,
        len(foreign),
        statistics.median(foreign),
        statistics.median(unknown),
        high - low,
        mann_whitney(foreign, unknown),
    )


async def run(plan: Plan) -> list[Figure]:
    """A figure for each operation."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    found = await asyncio.to_thread(measure, plan.folder, pairs=plan.times(PAIRS), seed=plan.seed)
    return [_shown(one) for one in found]


def _shown(one: Figures) -> Figure:
    medians = f"{one.median_foreign_us:,.0f} against {one.median_unknown_us:,.0f} µs in {one.pairs:,} pairs"
    return Figure(
        what=f"{one.operation}: foreign against unknown",
        value=one.share,
        shown=f"{medians}; p {one.p:.3f}, {one.share:.1%} of the spread",
        promise=f"p over {LEAST_P}, or under {LARGEST_SHARE:.0%} of the spread",
        kept=one.alike,
    )
