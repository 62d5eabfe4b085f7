"""Results of all sections, kept in `bench/results.json`: from them alone `docs/benchmarks.md` is written."""

import statistics
from pathlib import Path
from typing import Any

import msgspec

from bench.catalogue import SECTIONS

FILE = Path(__file__).with_name("results.json")


class Subject(msgspec.Struct, kw_only=True):
    """What was measured of one subject: by figure, a value for each round."""

    name: str
    figures: dict[str, list[float]] = {}
    #: what is on disk when a job counts as submitted, and when it counts as ended
    on_disk: str = ""

    def median(self, figure: str) -> float | None:
        """Return the median of a figure, or None where it was not measured."""
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


class Measured(msgspec.Struct, kw_only=True):
    """One section, measured at one time."""

    measured_at: str
    machine: str
    rounds: int
    #: sizes that differ from the usual ones
    sizes: str = ""
    versions: dict[str, str] = {}
    subjects: list[Subject] = []
    #: what was left out or failed, and why
    notes: list[str] = []
    #: what a section keeps beside its figures, such as the constants of a model
    extra: dict[str, Any] = {}


Results = dict[str, Measured]


def load(file: Path = FILE) -> Results:
    """Return all results; none where the file is not there."""
    return msgspec.json.decode(file.read_bytes(), type=Results) if file.exists() else {}


def save(results: Results, file: Path = FILE) -> None:
    """Write all results, in the order of the page."""
    ordered = {name: results[name] for name in SECTIONS if name in results}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
