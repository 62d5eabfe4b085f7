"""The snapshots of a job as a row of versions, with the one that is looked at."""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request

from langlauf.api.parameters import whole_number
from langlauf.domain.result import Snapshot
from langlauf.problems import not_found

_MOST_VERSIONS = 1_000_000_000
#: So many stand beside the chosen one; the first and the newest always do.
_BESIDE = 3


class Rail(msgspec.Struct, frozen=True, kw_only=True):
    """Which version is looked at, and which stand beside it. None in `shown` is a gap."""

    chosen: Snapshot
    newest: Snapshot
    pinned: bool
    shown: list[Snapshot | None]
    before: Snapshot | None
    after: Snapshot | None


def rail_of(snapshots: Sequence[Snapshot], request: Request) -> Rail | None:
    """The row of versions; `?v=5` pins one of them. Those whose payload retention took are not there."""
    pinned = whole_number(request, "v", default=0, lowest=0, highest=_MOST_VERSIONS)
    kept = [snapshot for snapshot in snapshots if snapshot.removed_at is None]
    if not kept:
        return None
    at = next((place for place, one in enumerate(kept) if one.result_seq == pinned), None) if pinned else len(kept) - 1
    if at is None:
        raise not_found()
    return Rail(
        chosen=kept[at],
        newest=kept[-1],
        pinned=bool(pinned),
        shown=_around(kept, at),
        before=kept[at - 1] if at else None,
        after=kept[at + 1] if at + 1 < len(kept) else None,
    )


def _around(kept: Sequence[Snapshot], at: int) -> list[Snapshot | None]:
    places = {0, len(kept) - 1, *range(max(0, at - _BESIDE), min(len(kept), at + _BESIDE + 1))}
    shown: list[Snapshot | None] = []
    previous = -1
    for place in sorted(places):
        if place != previous + 1:
            shown.append(None)
        shown.append(kept[place])
        previous = place
    return shown
