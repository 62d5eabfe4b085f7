"""The page for operators, in two scenes, each the worst in its way.

All jobs of one org, all ended within the last quarter of an hour; and those of a hundred orgs over a month, a tenth of
them waiting.
"""

import time
from functools import partial
from pathlib import Path

from langlauf.store.sql import parse_queries
from tests.scale.fixture import Scene, filled_in

#: What is remembered is older than this when a page is asked for again.
_FORGOTTEN_SECONDS = 6.0
_SQL = parse_queries(Path(__file__).with_name("filling.sql").read_text("utf-8"))
_PAGES = (
    *(f"/ops?range={span}" for span in ("15m", "1h", "24h", "7d")),
    *(f"/ops?range={span}&org=org-0" for span in ("15m", "7d")),
    "/ops/workers",
    "/ops/orgs?range=7d",
)


def pages(_: int) -> tuple[str, ...]:
    """Everything that looks over all jobs."""
    return _PAGES


def _statements(orgs: int, seconds: int, share: float, jobs: int, postgres: bool) -> list[str]:
    """So many orgs, all ends within so many seconds, and this share of the jobs waiting."""
    waiting = int(jobs * share)
    ended = jobs - waiting
    words = {
        "now": str(time.time_ns() // 1_000),
        "apart": str(max(1, seconds * 1_000_000 // max(ended, 1))),
        "orgs": str(orgs),
    }
    lanes = "fill_lanes" if postgres else "fill_lanes_of_file"
    counts = {"fill_ended": ended, "fill_waiting": waiting, lanes: waiting}
    return [filled_in(_SQL[name], words, count, postgres=postgres) for name, count in counts.items() if count]


SCENES = (
    Scene("one org, all ended within 15 min", partial(_statements, 1, 840, 0.0), pages, _FORGOTTEN_SECONDS),
    Scene("100 orgs, a month, a tenth waits", partial(_statements, 100, 2_600_000, 0.1), pages, _FORGOTTEN_SECONDS),
)
