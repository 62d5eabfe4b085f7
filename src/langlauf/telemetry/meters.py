"""How something is counted: cheap where it happens, put into Prometheus' shapes only when somebody asks.

The library's own counters take a lock and look their labels up at each count: ten times what these take, in places that
are passed some thousand times a second. Everything is counted on the thread of the event loop.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # loaded by those that are asked for metrics, not by those that count
    from prometheus_client import Metric

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]


class Meter:
    """What every metric has: a name with its unit, labels with few values, and a sentence."""

    kind: Kind

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002 - as Prometheus calls it
        self.name = name
        self.help = help
        self.labels = labels


class Tally(Meter):
    """Counts up since the start of the process. Its name ends in `_total`."""

    kind: Kind = "counter"

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002
        super().__init__(name, help, *labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0}
        self._taken: dict[Labels, float] = {}

    def add(self, *values: str, by: float = 1) -> None:
        """Counts one more, or more than one, under these values of its labels."""
        self._counts[values] = self._counts.get(values, 0) + by

    def expect(self, *values: str) -> None:
        """Tells 0 until something is counted: else the first count would be no increase."""
        self._counts.setdefault(values, 0)

    def put(self, count: float, *values: str) -> None:
        """Takes over what somebody else counts."""
        self._counts[values] = count

    def value(self, *values: str) -> float:
        """What was counted under these values."""
        return self._counts.get(values, 0)

    def take(self) -> list[tuple[Labels, list[float]]]:
        """What was counted since this was last asked."""
        found = [(values, [count - self._taken.get(values, 0)]) for values, count in self._counts.items()]
        self._taken = dict(self._counts)
        return [entry for entry in found if entry[1] != [0]]

    def give(self, values: Labels, counted: Sequence[float]) -> None:
        """Adds what another process counted."""
        self.add(*values, by=counted[0])

    def family(self) -> "Metric":
        """All counts, as Prometheus has them."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
        for values, count in list(self._counts.items()):
            family.add_metric(values, count)
        return family


class Spread(Meter):
    """How values are spread: how many were at most as large as each of some bounds, and their sum."""

    kind: Kind = "histogram"

    def __init__(self, name: str, help: str, *labels: str, bounds: Sequence[float]) -> None:  # noqa: A002
        super().__init__(name, help, *labels)
        self.bounds = tuple(bounds)
        self._rows: dict[Labels, list[float]] = {}
        self._taken: dict[Labels, list[float]] = {}

    def note(self, value: float, *values: str) -> None:
        """Counts a value. A row is the sum, then how many were found between each bound and the next."""
        row = self._rows.get(values)
        if row is None:
            row = self._rows[values] = [0.0] * (len(self.bounds) + 2)
        row[0] += value
        row[1 + bisect_left(self.bounds, value)] += 1

    def count(self, *values: str) -> float:
        """How many values were counted."""
        return sum(self._rows.get(values, (0,))[1:])

    def take(self) -> list[tuple[Labels, list[float]]]:
        """What was counted since this was last asked, as rows."""
        nothing = [0.0] * (len(self.bounds) + 2)
        found = [
            (values, [now - before for now, before in zip(row, self._taken.get(values, nothing), strict=True)])
            for values, row in self._rows.items()
        ]
        self._taken = {values: list(row) for values, row in self._rows.items()}
        return [entry for entry in found if any(entry[1])]

    def give(self, values: Labels, counted: Sequence[float]) -> None:
        """Adds a row that another process counted."""
        row = self._rows.get(values, [0.0] * (len(self.bounds) + 2))
        self._rows[values] = [mine + other for mine, other in zip(row, counted, strict=True)]

    def family(self) -> "Metric":
        """All rows, as Prometheus has them."""
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for values, row in list(self._rows.items()):
            family.add_metric(values, list(self._buckets(row)), sum_value=row[0])
        return family

    def _buckets(self, row: Sequence[float]) -> Iterator[tuple[str, float]]:
        seen = 0.0
        for bound, found in zip((*map(float, self.bounds), "+Inf"), row[1:], strict=True):
            seen += found
            yield str(bound), seen


class Level(Meter):
    """What is so right now. It is not counted: whoever knows it tells it when somebody asks."""

    kind: Kind = "gauge"

    def family(self, values: Iterable[tuple[Labels, float]] = ()) -> "Metric":
        """These levels, as Prometheus has them; without any it is only named."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family
