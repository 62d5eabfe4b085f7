"""Progress that never falls and reaches 100 only at the end."""

from langlauf.domain.state import Status

HIGHEST_UNFINISHED = 99


def advanced(current: int, reported: float | None) -> int:
    """The percent to store after a report: whole, never lower than before, never 100 before the end."""
    if reported is None:
        return current
    return max(current, min(HIGHEST_UNFINISHED, int(reported)), 0)


def plausible(status: Status, percent: int) -> bool:
    """Whether a job in this state may show this percent."""
    if status is Status.COMPLETED:
        return percent == HIGHEST_UNFINISHED + 1
    return 0 <= percent <= HIGHEST_UNFINISHED
