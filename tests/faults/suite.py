"""The scenarios by name, and how a run executes them.

A new one is a module in `scenarios` with `async def run(plan) -> list[Figure]`, a row here, and a row in
docs/guarantees.md; the command, the test suite and the table then have it. Its analyses go to `probes`.
"""

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import apsw

from tests.faults.plan import Plan
from tests.faults.report import Figure, Report, Run
from tests.faults.scenarios import (
    abandoned,
    cancel,
    children,
    clock,
    cut,
    deliveries,
    expiry,
    fairness,
    gil,
    kill,
    latency,
    replies,
    restarts,
    stop,
    timeout,
    watchdog,
)

Scenario = Callable[[Plan], Awaitable[list[Figure]]]

#: On one SQLite file.
ON_ONE_MACHINE: Mapping[str, Scenario] = {
    "kill": kill.run,
    "stop": stop.run,
    "cancel": cancel.run,
    "timeout": timeout.run,
    "expiry": expiry.run,
    "fairness": fairness.run,
    "abandoned": abandoned.run,
    "gil": gil.run,
    "watchdog": watchdog.run,
    "children": children.run,
    "latency": latency.run,
    "deliveries": deliveries.run,
}
#: On one PostgreSQL, on hosts that are network namespaces, which need root.
ON_HOSTS: Mapping[str, Scenario] = {
    "cut": cut.run,
    "restarts": restarts.run,
    "replies": replies.run,
    "clock": clock.run,
}
SCENARIOS: Mapping[str, Scenario] = {**ON_ONE_MACHINE, **ON_HOSTS}


def run_scenario(name: str, plan: Plan, scenarios: Mapping[str, Scenario] = SCENARIOS) -> Report:
    """Run one scenario in an event loop of its own."""

    async def measured() -> list[Figure]:
        return await scenarios[name](plan)

    began = time.monotonic()
    figures = asyncio.run(measured())
    return Report(scenario=name, seconds=round(time.monotonic() - began, 1), figures=figures)


def run_all(
    names: Iterable[str],
    plan_for: Callable[[str], Plan],
    *,
    seed: int,
    scale: float,
    scenarios: Mapping[str, Scenario] = SCENARIOS,
) -> Run:
    """Run scenarios one after the other."""
    return Run(
        seed=seed,
        scale=scale,
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        reports=[run_scenario(name, plan_for(name), scenarios) for name in names],
    )
