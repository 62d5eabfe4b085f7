"""A job on a terminal: one line with a bar that is redrawn in place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from langlauf.client.job_text import progress_parts, state_text, time_left
from langlauf.client.models import JobState
from langlauf.domain.state import Status

_COLORS = {
    Status.QUEUED: "yellow",
    Status.RUNNING: "cyan",
    Status.PARTIAL: "cyan",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELED: "magenta",
}
_REDRAWS_PER_SECOND = 4
_BAR_WIDTH = 28
#: Fixed widths, so that columns do not move when a word gets longer.
_STATE_WIDTH, _PERCENT_WIDTH = len(Status.COMPLETED), len("100 %")


def terminal() -> Console | None:
    """Return standard error if it is a terminal on which a line can be redrawn, or None."""
    console = Console(stderr=True)
    return console if console.is_terminal and not console.is_dumb_terminal else None


@contextmanager
def drawn_job(console: Console) -> Iterator[Callable[[JobState], None]]:
    """Draw a job while the block lasts; yields the function that takes its next state."""
    line = _ProgressLine()
    with Live(line, console=console, refresh_per_second=_REDRAWS_PER_SECOND, redirect_stdout=False):
        yield line.update


class _ProgressLine:
    """One line that fits the terminal: state, bar, percent, step, attempt, partials, time left."""

    def __init__(self) -> None:
        self._state: JobState | None = None

    def update(self, state: JobState) -> None:
        """Replace the state; it is drawn with the next redraw."""
        self._state = state

    def __rich__(self) -> Table | Text:
        """Return what to draw now; between two states only the time left changes."""
        state = self._state
        if state is None:
            return Text("asking the server")
        color = _COLORS[state.status]
        bar = ProgressBar(100, state.progress_percent, _BAR_WIDTH, complete_style=color, finished_style=color)
        line = Table.grid(padding=(0, 1))
        for _ in range(3):
            line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis")
        percent, *rest = progress_parts(state)
        words = Text(", ".join(part for part in (*rest, time_left(state)) if part))
        line.add_row(Text(state_text(state).ljust(_STATE_WIDTH), color), bar, percent.rjust(_PERCENT_WIDTH), words)
        return line
