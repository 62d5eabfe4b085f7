"""Metrics as Prometheus reads them, with the parser of its library."""

from collections.abc import Mapping

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, tuple[tuple[str, str], ...]]


class MetricsScrape:
    """The samples of one scrape, or their difference to an earlier one."""

    def __init__(self, samples: Mapping[Sample, float], kinds: Mapping[str, str]) -> None:
        self._samples = samples
        #: the type of each metric by its name
        self.kinds = kinds

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of all samples with this name and at least these labels."""
        wanted = labels.items()
        return sum(value for (told, pairs), value in self._samples.items() if told == name and wanted <= set(pairs))

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """Return the samples of a name that are not 0, summed by some of its labels."""
        found: dict[str, float] = {}
        for (told, pairs), value in self._samples.items():
            if told == name and value:
                key = " ".join(dict(pairs)[label] for label in labels).strip()
                found[key] = found.get(key, 0) + value
        return found

    @property
    def names(self) -> set[str]:
        """Return the names of all metrics with samples."""
        return {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name, _ in self._samples}

    def since(self, before: "MetricsScrape") -> "MetricsScrape":
        """Return the increase since an earlier scrape."""
        changed = {sample: value - before._samples.get(sample, 0) for sample, value in self._samples.items()}
        return MetricsScrape(changed, self.kinds)


def read_scrape(text: str, *, openmetrics: bool = False) -> MetricsScrape:
    """Parse a response of /metrics; raise where it violates its format."""
    samples: dict[Sample, float] = {}
    kinds: dict[str, str] = {}
    for family in (openmetrics_families if openmetrics else text_string_to_metric_families)(text):
        counter = family.type == "counter"
        kinds[f"{family.name}_total" if counter else family.name] = family.type
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples, f"{key} is there twice"
            samples[key] = sample.value
    return MetricsScrape(samples, kinds)
