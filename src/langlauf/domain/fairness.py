"""Start-time fair queueing between orgs: however much one of them queues, each gets its share of starts."""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

Item = TypeVar("Item")


def take_in_turns(
    items: Sequence[Item], holder_of: Callable[[Item], str], *, most: int, most_of_one: int
) -> tuple[list[Item], list[Item]]:
    """The items that go first, and those that wait, both in their order.

    Where several holders have some, each has at most `most_of_one`: the first of each, then the second of each, and so
    on. What has no holder (an empty name) is not held back.
    """
    if len(items) <= min(most, most_of_one):
        return list(items), []
    holders = [holder_of(item) for item in items]
    several = len(set(holders) - {""}) > 1
    if len(items) <= (most_of_one if several else most):
        return list(items), []
    seen: Counter[str] = Counter()
    ranks: list[tuple[int, int]] = []
    for index, holder in enumerate(holders):
        rank = seen[holder]
        seen[holder] += bool(holder)
        if rank < most_of_one or not several:
            ranks.append((rank, index))
    first = {index for _, index in heapq.nsmallest(most, ranks)}
    taken = [item for index, item in enumerate(items) if index in first]
    return taken, [item for index, item in enumerate(items) if index not in first]


class OrgQueue(msgspec.Struct, frozen=True, order=True):
    """The jobs of one org that may start. The lowest virtual start has the next turn, then who waits longer for it."""

    virtual_start: int
    #: where it stood before it was brought up to the present
    stood_at: int
    #: counts up over all orgs: the lower, the longer ago this one was served
    served: int
    #: the number of the org
    org: int
    waiting: int


class OrgStarts(msgspec.Struct, frozen=True):
    """How many jobs of an org may start now."""

    queue: OrgQueue
    starts: int


def share_slots(queues: list[OrgQueue], room: int) -> list[OrgStarts]:
    """Deals out the free slots one by one, each to the org that has had the fewest."""
    ordered = sorted(queues)
    starts = [0] * len(ordered)
    heap = [(queue.virtual_start, index) for index, queue in enumerate(ordered)]
    while room > 0 and heap:
        turn, index = heap[0]
        starts[index] += 1
        room -= 1
        if starts[index] < ordered[index].waiting:
            heapq.heapreplace(heap, (turn + 1, index))
        else:
            heapq.heappop(heap)
    return [OrgStarts(queue, count) for queue, count in zip(ordered, starts, strict=True) if count]


def deal_jobs(heads: Mapping[OrgQueue, Sequence[Item]], take: Callable[[Item], bool]) -> dict[OrgQueue, list[Item]]:
    """Hands out jobs one by one in the order of turns; one that cannot be taken costs its org no turn."""
    ordered = sorted(heads)
    taken: list[list[Item]] = [[] for _ in ordered]
    left = [iter(heads[queue]) for queue in ordered]
    heap = [(queue.virtual_start, index) for index, queue in enumerate(ordered)]
    while heap:
        turn, index = heap[0]
        for item in left[index]:
            if take(item):
                taken[index].append(item)
                heapq.heapreplace(heap, (turn + 1, index))
                break
        else:
            heapq.heappop(heap)
    return dict(zip(ordered, taken, strict=True))
