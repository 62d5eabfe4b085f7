"""What a section is given: services, sizes and places. It travels to the section's process as JSON."""

from pathlib import Path

import msgspec


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one section."""

    #: where stores and files are made: the disk that is measured
    folder: str
    rounds: int
    #: jobs of each subject and round, or None for what each subject has by itself
    jobs: int | None = None
    #: of each run of wrk
    seconds: int = 5
    #: rows of the stores that are compared, from small to large
    sizes: tuple[int, ...] = (1_000, 5_000_000)
    #: after this long no further subject is measured
    limit_seconds: float = 3_600.0
    #: services that run; None where the machine has no program for them
    postgres: str | None = None
    redis: str | None = None
    wrk: str | None = None

    @property
    def data(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)

    def lacks(self, needs: tuple[str, ...]) -> str | None:
        """Return which package to install for a need that is not met, or None."""
        packages = {"postgres": "postgresql", "redis": "redis-server", "wrk": "wrk"}
        missing = [packages[need] for need in needs if getattr(self, need) is None]
        return f"install {' and '.join(missing)}" if missing else None

    def of_jobs(self, usual: int) -> int:
        """Return how many jobs a round has, where usually it has that many."""
        return usual if self.jobs is None else min(usual, self.jobs)
