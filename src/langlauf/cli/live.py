"""A job while it runs: a bar that is redrawn in a terminal, a line per change anywhere else; on standard error."""

import time
from collections.abc import Iterable

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from langlauf.cli.printing import note, progress_words, span, state_words
from langlauf.client import JobState
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
#: Columns that do not jump when a word gets longer.
_STATE_WIDTH, _PERCENT_WIDTH = len(Status.COMPLETED), len("100 %")


def show(states: Iterable[JobState]) -> None:
    """Shows each state as it comes, until there are no more."""
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        _draw(states, console)
    else:
        _tell(states)


def _tell(states: Iterable[JobState]) -> None:
    told = ""
    for state in states:
        line = ", ".join([state_words(state), *progress_words(state)])
        if line != told:
            note(line + _left(state.estimated_seconds))
            told = line


def _draw(states: Iterable[JobState], console: Console) -> None:
    picture = Picture()
    with Live(picture, console=console, refresh_per_second=_REDRAWS_PER_SECOND, redirect_stdout=False):
        for state in states:
            picture.show(state)


class Picture:
    """One line that fits the terminal: state, bar, percent, step, attempt, partials, time left."""

    def __init__(self) -> None:
        self._state: JobState | None = None
        self._seen_at = 0.0

    def show(self, state: JobState) -> None:
        """Takes another state; it is drawn with the next redraw."""
        self._seen_at = time.monotonic()
        self._state = state

    def __rich__(self) -> Table | Text:
        """What to draw now; between two states only the time left moves."""
        state = self._state
        if state is None:
            return Text("asking the server")
        color = _COLORS[state.status]
        bar = ProgressBar(100, state.progress_percent, _BAR_WIDTH, complete_style=color, finished_style=color)
        estimate = state.estimated_seconds
        left = None if estimate is None else max(0.0, estimate - (time.monotonic() - self._seen_at))
        line = Table.grid(padding=(0, 1))
        for _ in range(3):
            line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis")
        percent, *rest = progress_words(state)
        words = Text(", ".join(rest) + _left(left))
        line.add_row(Text(state_words(state).ljust(_STATE_WIDTH), color), bar, percent.rjust(_PERCENT_WIDTH), words)
        return line


def _left(seconds: float | None) -> str:
    return f", about {span(seconds)} left" if seconds else ""
