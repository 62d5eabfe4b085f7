"""Progress that reaches 100 only at the end. That it never falls is the statement's business: it knows what was."""

HIGHEST_UNFINISHED = 99


def stored_percent(reported: float | None) -> int:
    """The percent of a report as it is stored: whole, not under 0, and not 100 before the end."""
    return 0 if reported is None else max(0, min(HIGHEST_UNFINISHED, int(reported)))
