"""A machine whose time a test moves: its wall clock can be set, the time since its start only grows."""

from langlauf.clock import TimeSource, new_id
from langlauf.domain.instant import Instant, after
from tests.support.stores import START, SetClock

HOUR = 3_600.0


class Machine(SetClock):
    """Its own time is the wall clock; `source` is what a store's clock is made from."""

    def __init__(self, wall: Instant = START) -> None:
        super().__init__(wall)
        self._since_boot = after(0, HOUR)
        self._boot_id = new_id()

    @property
    def source(self) -> TimeSource:
        """What a process that starts now sees."""
        return TimeSource(lambda: self.time, lambda: self._since_boot, self._boot_id)

    def pass_(self, seconds: float) -> None:
        """Time goes by."""
        super().pass_(seconds)
        self._since_boot = after(self._since_boot, seconds)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock, forward or back."""
        self.time = after(self.time, seconds)

    def restart(self, *, wall: float, id_is_known: bool = True) -> None:
        """It starts again; its wall clock is so many seconds on, or behind. All its processes are gone."""
        self.set_wall(wall)
        self._since_boot = after(0, 10)
        if id_is_known:
            self._boot_id = new_id()
