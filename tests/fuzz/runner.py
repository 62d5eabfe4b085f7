"""Runs schemathesis over the whole document, round by round, until there were enough cases."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import schemathesis
from schemathesis.engine import events, from_schema

from tests.fuzz.checks import BUILT_IN, OUR_OWN
from tests.fuzz.hooks import Knowledge
from tests.fuzz.target import HEADERS, TOKEN, target
from tests.support.live import Live

PER_OPERATION = 60


class Finding(msgspec.Struct, frozen=True):
    """A promise that was not kept, and how to see it again."""

    operation: str
    title: str
    message: str
    sample: str


class Report(msgspec.Struct):
    """What a run came to."""

    seed: int
    cases: int = 0
    by_phase: Counter[str] = msgspec.field(default_factory=Counter)
    by_status: Counter[int] = msgspec.field(default_factory=Counter)
    findings: dict[tuple[str, str, str], Finding] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)
    seconds: float = 0.0

    @property
    def server_errors(self) -> int:
        """Answers of 500 and above, those of jobs that ran out of their own time aside."""
        return sum(count for status, count in self.by_status.items() if status >= 500 and status != 504)


def _nobody(done: int) -> int:
    """Watches the number of cases."""
    return done


def fuzz(
    folder: Path,
    *,
    cases: int,
    seed: int,
    per_operation: int = PER_OPERATION,
    edges: bool = True,
    watch: Callable[[int], object] = _nobody,
) -> Report:
    """At least so many cases; the first round also has the examples and, with `edges`, the limits of every schema."""
    report, started = Report(seed), time.monotonic()
    with target(folder) as (server, known):
        for number in range(cases):
            if number and report.cases >= cases:
                break
            settings = _settings(seed + number, per_operation, examples=number == 0, edges=edges and number == 0)
            _round(report, server, Knowledge(known, seed + number), settings)
            watch(report.cases)
    report.seconds = time.monotonic() - started
    return report


def _round(report: Report, server: Live, knowledge: Knowledge, settings: dict[str, Any]) -> None:
    config = schemathesis.Config.from_dict(settings)
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
    with knowledge.taught():
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                _count(report, event)
            elif isinstance(event, events.NonFatalError):
                report.errors.append(f"{event.label}: {event.info.format()}")
            elif isinstance(event, events.FatalError):
                raise event.exception


def _settings(seed: int, per_operation: int, *, examples: bool, edges: bool) -> dict[str, Any]:
    checks: dict[str, Any] = {"enabled": False, **{name: {"enabled": True} for name in (*BUILT_IN, OUR_OWN)}}
    checks["not_a_server_error"] |= {"expected-statuses": ["2xx", "3xx", "4xx", 504]}  # a job may run out of its time
    accepted = ["2xx", "3xx", 401, 403, 404, 409, 410, 413, 422, 429, 504]
    checks["positive_data_acceptance"] |= {"expected-statuses": accepted}
    return {
        "seed": seed,
        "headers": {"Authorization": HEADERS["Authorization"]},
        "request-timeout": 20,
        "continue-on-failure": True,
        "cache": {"enabled": False},
        "suppress-health-check": ["all"],
        "generation": {"max-examples": per_operation, "database": "none", "allow-x00": False, "no-shrink": True},
        "phases": {
            "examples": {"enabled": examples},
            "coverage": {"enabled": edges, "unexpected-methods": ["delete", "put", "patch", "trace"]},
        },
        "checks": checks,
    }


def _count(report: Report, event: events.ScenarioFinished) -> None:
    recorder = event.recorder
    report.cases += len(recorder.cases)
    report.by_phase[event.phase.value] += len(recorder.cases)
    for interaction in recorder.interactions.values():
        if interaction.response is not None:
            report.by_status[interaction.response.status_code] += 1
    for checks in recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                failure, sample = check.failure_info.failure, check.failure_info.code_sample
                found = Finding(recorder.label, failure.title, failure.message, sample)
                report.findings.setdefault((recorder.label, failure.title, failure.message), found)


def lines(report: Report) -> Iterator[str]:
    """The figures, and each finding with the request that shows it."""
    yield f"seed {report.seed}, {report.seconds:.0f} s"
    yield f"cases {report.cases:,}: " + ", ".join(f"{name} {count:,}" for name, count in report.by_phase.items())
    yield "answers: " + ", ".join(f"{status}: {count:,}" for status, count in sorted(report.by_status.items()))
    yield f"server errors {report.server_errors}, violations {len(report.findings)}, errors {len(report.errors)}"
    for (operation, *_), finding in report.findings.items():
        yield f"- {operation}: {finding.title}. {finding.message}\n    {finding.sample.replace(TOKEN, '…')}"
    yield from report.errors
