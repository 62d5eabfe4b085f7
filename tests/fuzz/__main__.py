"""`python -m tests.fuzz`: calls every operation with what the document allows and what it does not."""

import random
import sys
import tempfile
from pathlib import Path

import click

from tests.fuzz.runner import PER_OPERATION, fuzz, lines


@click.command()
@click.option("--cases", type=click.IntRange(1), default=10_000, show_default=True, help="At least so many.")
@click.option("--seed", type=int, default=None, help="Draws the same cases again.  [default: a new one]")
@click.option(
    "--per-operation",
    type=click.IntRange(1),
    default=PER_OPERATION,
    show_default=True,
    help="Per round.",
)
def main(cases: int, seed: int | None, per_operation: int) -> None:
    """Fuzz a real server by its own document. Exit 1 where an answer was not as described."""
    seed = random.randrange(2**31) if seed is None else seed
    click.echo(f"seed {seed}", err=True)
    with tempfile.TemporaryDirectory(prefix="langlauf-fuzz-") as folder:
        report = fuzz(
            Path(folder),
            cases=cases,
            seed=seed,
            per_operation=per_operation,
            watch=lambda done: click.echo(f"{done:,} of {cases:,}", err=True),
        )
    for line in lines(report):
        click.echo(line)
    sys.exit(1 if report.findings or report.errors or report.server_errors else 0)


if __name__ == "__main__":
    main()
