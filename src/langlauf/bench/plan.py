"""What to measure, and how much of it."""

import msgspec

#: What can be measured of each store.
ON_SQLITE = ("cost", "lifecycle", "http", "polls", "backlog")
ON_POSTGRES = ("cost", "lifecycle", "hosts", "backlog", "orgs", "history", "dead", "notify", "capacity")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    jobs: int
    concurrency: int
    clients: int
    rounds: int
    histories: tuple[int, ...]
    #: which of the measurements of its store
    names: tuple[str, ...]
    processes: int = 1
    orgs: int = 1
    backlogs: tuple[int, ...] = (1_000, 5_000_000)
    taken: int = 200_000
