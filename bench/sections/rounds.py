"""Interleaved rounds: every subject is measured once before any is measured again."""

import subprocess
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from bench.context import Context
from bench.processes import DidNotStart
from bench.progress import elapsed, print_progress
from bench.results import Measured, Subject
from langlauf.domain.errors import LanglaufError


class BenchSubject(Protocol):
    """A subject of a section."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Services without which it is left out."""

    @property
    def on_disk(self) -> str:
        """What is on disk when a job counts."""


S = TypeVar("S", bound=BenchSubject)


def run_rounds(
    context: Context, found: Measured, subjects: Sequence[S], measure: Callable[[S], dict[str, float]]
) -> None:
    """Measure all subjects in rounds, and note those that are left out or fail."""
    able = []
    for subject in subjects:
        if lacking := context.lacks(subject.needs):
            found.notes.append(f"{subject.name} is left out: {lacking}.")
        else:
            able.append((subject, Subject(name=subject.name, on_disk=subject.on_disk)))
    for number in range(context.rounds):
        for subject, kept in able:
            if elapsed() > context.limit_seconds:
                found.notes.append(f"The limit of {context.limit_seconds:.0f} s ended it in round {number + 1}.")
                continue
            try:
                figures = measure(subject)
            except (RuntimeError, OSError, DidNotStart, LanglaufError, subprocess.SubprocessError) as error:
                print_progress(f"round {number + 1}, {subject.name}: FAILED, {error}")
                found.notes.append(f"{subject.name} failed in round {number + 1}.")
                continue
            for name, figure in figures.items():
                kept.figures.setdefault(name, []).append(round(figure, 4))
            shown = ", ".join(f"{name} {figure:,.2f}" for name, figure in figures.items())
            print_progress(f"round {number + 1}, {subject.name}: {shown}")
    found.subjects += [kept for _, kept in able if kept.figures]
