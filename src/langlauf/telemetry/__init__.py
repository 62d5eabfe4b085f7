"""What the program tells about itself: facts, which are logged and counted, and metrics, which are only counted."""

from langlauf.telemetry.facts import (
    COUNTS,
    Fact,
    JsonLines,
    ReadableLines,
    log_beside_others,
    set_up_logging,
    tell,
    tell_store_failed,
)

__all__ = [
    "COUNTS",
    "Fact",
    "JsonLines",
    "ReadableLines",
    "log_beside_others",
    "set_up_logging",
    "tell",
    "tell_store_failed",
]
