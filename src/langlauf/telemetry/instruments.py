"""Counter, histogram and gauge: cheap to update, converted to Prometheus' types only at a scrape.

The counters of `prometheus_client` take a lock and look up their labels at each update: ten times the cost of these, on
paths that run thousands of times a second. All updates happen on the thread of the event loop.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # loaded at the first scrape, not by processes that only count
    from prometheus_client import Metric

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]


class Instrument:
    """Base of all metrics: a name that ends in its unit, a help text, and labels with few values."""

    kind: Kind

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002 - as Prometheus calls it
        self.name = name
        self.help = help
        self.labels = labels


class Counter(Instrument):
    """A count that only grows, from the start of the process. Its name ends in `_total`."""

    kind: Kind = "counter"

    def __init__(self, name: str, help: str, *labels: str) -> None:  # noqa: A002
        super().__init__(name, help, *labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0}
        self._taken: dict[Labels, float] = {}

    def add(self, *values: str, by: float = 1) -> None:
        """Add to the count with these label values."""
        self._counts[values] = self._counts.get(values, 0) + by

    def initialize(self, *values: str) -> None:
        """Export 0 until the first count: otherwise Prometheus would not see that one as an increase."""
        self._counts.setdefault(values, 0)

    def set(self, count: float, *values: str) -> None:
        """Replace the count with one that is kept elsewhere."""
        self._counts[values] = count

    def value(self, *values: str) -> float:
        """Return the count with these label values."""
        return self._counts.get(values, 0)

    def take_delta(self) -> list[tuple[Labels, list[float]]]:
        """Return what was counted since the previous call."""
        found = [(values, [count - self._taken.get(values, 0)]) for values, count in self._counts.items()]
        self._taken = dict(self._counts)
        return [entry for entry in found if entry[1] != [0]]

    def merge(self, values: Labels, delta: Sequence[float]) -> None:
        """Add the delta of another process."""
        self.add(*values, by=delta[0])

    def family(self) -> "Metric":
        """Return all counts as a Prometheus metric family."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
        for values, count in list(self._counts.items()):
            family.add_metric(values, count)
        return family


class Histogram(Instrument):
    """A distribution: the number of values up to each bound, and their sum."""

    kind: Kind = "histogram"

    def __init__(self, name: str, help: str, *labels: str, bounds: Sequence[float]) -> None:  # noqa: A002
        super().__init__(name, help, *labels)
        self.bounds = tuple(bounds)
        #: by label values: the sum, then the count between each bound and the next
        self._rows: dict[Labels, list[float]] = {}
        self._taken: dict[Labels, list[float]] = {}

    def observe(self, value: float, *values: str) -> None:
        """Count a value under these label values."""
        row = self._rows.get(values)
        if row is None:
            row = self._rows[values] = [0.0] * (len(self.bounds) + 2)
        row[0] += value
        row[1 + bisect_left(self.bounds, value)] += 1

    def count(self, *values: str) -> float:
        """Return the number of observed values."""
        return sum(self._rows.get(values, (0,))[1:])

    def take_delta(self) -> list[tuple[Labels, list[float]]]:
        """Return the rows of what was observed since the previous call."""
        nothing = [0.0] * (len(self.bounds) + 2)
        found = [
            (values, [now - before for now, before in zip(row, self._taken.get(values, nothing), strict=True)])
            for values, row in self._rows.items()
        ]
        self._taken = {values: list(row) for values, row in self._rows.items()}
        return [entry for entry in found if any(entry[1])]

    def merge(self, values: Labels, delta: Sequence[float]) -> None:
        """Add a row of another process."""
        row = self._rows.get(values, [0.0] * (len(self.bounds) + 2))
        self._rows[values] = [mine + other for mine, other in zip(row, delta, strict=True)]

    def family(self) -> "Metric":
        """Return all rows as a Prometheus metric family."""
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for values, row in list(self._rows.items()):
            family.add_metric(values, list(self._buckets(row)), sum_value=row[0])
        return family

    def _buckets(self, row: Sequence[float]) -> Iterator[tuple[str, float]]:
        total = 0.0
        for bound, found in zip((*map(float, self.bounds), "+Inf"), row[1:], strict=True):
            total += found
            yield str(bound), total


class Gauge(Instrument):
    """A current value. It is not kept here but read at each scrape."""

    kind: Kind = "gauge"

    def family(self, values: Iterable[tuple[Labels, float]] = ()) -> "Metric":
        """Return these values as a Prometheus metric family; without values, only its name and help."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family
