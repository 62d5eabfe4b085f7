"""What measurements of the stores find, and how each is named in a table."""

import statistics
from collections.abc import Sequence
from typing import Protocol

import msgspec

#: Of one step: its label, and the value.
Figures = dict[str, float]


class JobCost(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time per job in microseconds: it changes less than durations do when others use the machine."""

    client_us: float
    #: of the connections' processes; None where they run on another machine
    database_us: float | None
    #: of that, by what the connection does: submit, claim, record
    stages_us: dict[str, float]
    #: processors that were left by programs that have nothing to do with the run
    cores_left: float


class StoreCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the store itself takes for a job with a small input and a small result and no partial."""

    #: writes of one kind in a transaction
    batch: int
    #: microseconds of a processor per job, by what is done: of the thread that writes, or of the database's connections
    stages_us: dict[str, float]
    #: of all other processes of the database, for the same jobs
    background_us: float | None = None
    row_writes: float
    #: of a job that has ended, with all indexes
    bytes_per_job: float
    #: the same without the room that dead rows have left for later ones
    packed_bytes_per_job: float | None = None
    #: of the updates of jobs' rows, how many entered nothing in an index, by what they were for
    hot_shares: dict[str, float] = {}

    def figures(self) -> Figures:
        """Return it by label."""
        where = f"a job in batches of {self.batch}"
        found: dict[str, float | None] = {
            f"{where}: processor time of the store, µs": sum(self.stages_us.values()) or None,
            **{f"of that, {stage}": used for stage, used in self.stages_us.items()},
            f"{where}: processor time of the server's other processes, µs": self.background_us,
            f"{where}: rows written": self.row_writes,
            "a job that has ended: bytes, with all indexes": self.bytes_per_job,
            "a job that has ended: bytes, packed": self.packed_bytes_per_job,
            **{f"{kind}: share of updates that are HOT": share for kind, share in self.hot_shares.items()},
        }
        return {label: value for label, value in found.items() if value is not None}


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in stores that differ in one respect: medians in microseconds, and the last against the first."""

    what: str
    beside: list[str]
    medians_us: list[float]
    ratio: float
    #: the same of the store's processor time, which changes less when others use the machine
    processor_ratio: float | None = None

    def figures(self) -> Figures:
        """Return it by label."""
        last, first = self.beside[-1], self.beside[0]
        found: Figures = {f"{self.what}, {last} to {first}: ratio": self.ratio}
        if self.processor_ratio is not None:
            found[f"{self.what}, {last} to {first}: ratio of processor time"] = self.processor_ratio
        return {**found, f"{self.what}, {first}, µs": self.medians_us[0]}


class TimedSite(Protocol):
    """A store that is measured beside others: seconds of each call and processor seconds, by what was measured."""

    label: str
    taken: dict[str, list[float]]
    used: dict[str, float]


def compare_medians(name: str, sites: Sequence[TimedSite]) -> Compared:
    """Return the medians of one measurement, and the ratio of the last site's to the first one's."""
    microseconds = [round(statistics.median(site.taken[name]) * 1e6, 1) for site in sites]
    used = [site.used[name] for site in sites]
    return Compared(
        what=name,
        beside=[site.label for site in sites],
        medians_us=microseconds,
        ratio=round(microseconds[-1] / microseconds[0], 3),
        processor_ratio=round(used[-1] / used[0], 3) if all(used) else None,
    )


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of one row on many connections; the ratios are to commits without a NOTIFY."""

    connections: int
    commits_per_second: float
    #: a NOTIFY in every commit
    each_commit_ratio: float
    #: one connection apart that notifies every now and then
    gathered_ratio: float

    def figures(self) -> Figures:
        """Return it by label."""
        where = f"{self.connections} connections"
        return {
            f"NOTIFY in every commit, {where}: ratio": self.each_commit_ratio,
            f"NOTIFY gathered on a connection apart, {where}: ratio": self.gathered_ratio,
            f"commits of one row, {where}, per s": self.commits_per_second,
        }
