"""What a run is to do: its seed, how much of the full measure, where, and who is told how far it is."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Plan(NamedTuple):
    """One run of a scenario. The same seed draws the same schedule, as far as the machine keeps to it."""

    seed: int
    #: 1 is the full measure, 0.1 what the test suite runs
    scale: float
    #: where stores and ledgers are made
    folder: Path
    #: the application that is served
    app: str = "tests.faults.probes:app"
    #: told the steps that are done, and how many there are
    watch: Callable[[int, int], None] = lambda _done, _total: None

    def times(self, full: int) -> int:
        """How many of something there are to be, where the full measure has so many."""
        return max(1, math.ceil(full * self.scale))

    def chance(self, name: str) -> random.Random:
        """The chance of one part of the run; parts do not disturb each other."""
        return random.Random(f"{self.seed} {name}")
