"""Parameters of a run: its seed, scale, folder and progress callback."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Plan(NamedTuple):
    """One run of a scenario. The same seed draws the same schedule, as far as the machine keeps to it."""

    seed: int
    #: 1 is the full scale, 0.1 that of the test suite
    scale: float
    #: where stores and ledgers are created
    folder: Path
    #: the application that is served
    app: str = "tests.faults.probes:app"
    #: called with the steps done and their total
    watch: Callable[[int, int], None] = lambda _done, _total: None

    def times(self, full: int) -> int:
        """Scale a count of the full run."""
        return max(1, math.ceil(full * self.scale))

    def chance(self, name: str) -> random.Random:
        """Return a random generator for one part of the run; parts are independent."""
        return random.Random(f"{self.seed} {name}")
