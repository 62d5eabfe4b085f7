"""A bar on standard error for what goes over a whole store."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from langlauf.store.tools.verify import Watch


@contextmanager
def progress(what: str) -> Iterator[Watch]:
    """The bar, where somebody looks at it; it is told of each step."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what)
        yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total)
