"""The database's clock, told without asking it every time.

Each host has a steady clock that nobody sets. How far the database's is from it is learned from answers that carry the
database's time, and learned anew all the while: hosts whose own clocks are wrong still agree.
"""

from langlauf.clock import monotonic
from langlauf.domain.instant import SECOND, Instant

#: An answer on the way for longer tells the time no better than what is known.
_WORSE = 1.5
#: What is known gets less sure by and by: after a minute a new answer counts as soon as it is not much slower.
_FADES = 1 / 60


class DatabaseClock:
    """Tells the time of the database. It must have learned it once before it is asked."""

    def __init__(self) -> None:
        self._shift = 0
        self._doubt = float("inf")
        self._learned_at = 0.0

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC, as the database reckons."""
        return round(monotonic() * SECOND) + self._shift

    def learn(self, told: Instant, asked_at: float, heard_at: float) -> None:
        """Takes over what the database said between two moments of the steady clock, where that is the better news."""
        way = heard_at - asked_at
        doubt = self._doubt * (1 + (heard_at - self._learned_at) * _FADES)
        if way <= doubt * _WORSE or abs(self._seen(told, asked_at, heard_at) - self._shift) > way * SECOND:
            self._shift = self._seen(told, asked_at, heard_at)
            self._doubt, self._learned_at = way, heard_at

    def _seen(self, told: Instant, asked_at: float, heard_at: float) -> int:
        return told - round((asked_at + heard_at) / 2 * SECOND)
