"""Start-time fair queueing over lanes. A lane is one org's waiting jobs of one analysis."""

import heapq

import msgspec


class Lane(msgspec.Struct, frozen=True, order=True):
    """A lane that has jobs waiting. The lowest virtual start has the next turn; ties go by name."""

    virtual_start: int
    org_id: str
    analysis: str
    waiting: int


class Turns(msgspec.Struct, frozen=True):
    """How many jobs a lane may start now, and where its virtual start stands afterwards."""

    lane: Lane
    starts: int
    virtual_start: int


def share(lanes: list[Lane], room: int) -> list[Turns]:
    """Deals out the free slots one by one, each to the lane that has had the fewest."""
    ordered = sorted(lanes)
    starts = [0] * len(ordered)
    heap = [(lane.virtual_start, index) for index, lane in enumerate(ordered)]
    while room > 0 and heap:
        turn, index = heapq.heappop(heap)
        starts[index] += 1
        room -= 1
        if starts[index] < ordered[index].waiting:
            heapq.heappush(heap, (turn + 1, index))
    return [
        Turns(lane, count, lane.virtual_start + count) for lane, count in zip(ordered, starts, strict=True) if count
    ]
