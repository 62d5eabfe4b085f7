"""The probes over a store whose fence was taken away: a harness that finds nothing wrong with it would find nothing."""

from langlauf.store.sqlite import driver
from tests.faults.probes import app

driver._FENCE = "TRUE"

__all__ = ["app"]
