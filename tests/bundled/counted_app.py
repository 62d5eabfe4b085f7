"""The bundled analyses, watched: each computation leaves a line in a file, and one of them ends its process."""

import os
import signal
from collections.abc import Callable
from typing import Any

from langlauf import Langlauf, PlainJob
from langlauf.analysis.payload import Result
from langlauf.bundled.clustering import clustering
from langlauf.bundled.ontology import ontology
from tests.support.plain_app import note


def counted_clustering(job: PlainJob, table: str, file: str, dies_at: int) -> Result:
    """Clustering that dies in its first attempt instead of a k."""
    from langlauf.bundled.clustering import clusters

    real = clusters.fit

    def fit(values: Any, k: int, *args: Any) -> dict[str, Any]:
        _note_or_die(job, file, str(k), str(dies_at))
        return real(values, k, *args)

    return _with(clusters, "fit", fit, lambda: clustering(job, table, k_max=6))


def counted_ontology(job: PlainJob, text: str, previous: str, file: str, dies_at: str) -> Result:
    """The comparison of an ontology that dies in its first attempt instead of a namespace."""
    from langlauf.bundled.ontology import analysis, findings, obo

    real, read = findings.Comparison.compare, obo.read_index

    def compare(compared: findings.Comparison, namespace: str) -> dict[str, Any]:
        _note_or_die(job, file, namespace, dies_at)
        return real(compared, namespace)

    def read_index(document: str, parameter: str) -> dict[str, Any]:
        note(file, f"read {parameter}")
        return read(document, parameter)

    def compared() -> Result:
        return _with(analysis, "read_index", read_index, lambda: ontology(job, text, previous=previous))

    return _with(findings.Comparison, "compare", compare, compared)


def _note_or_die(job: PlainJob, file: str, what: str, dies_at: str) -> None:
    if job.attempt == 1 and what == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    note(file, what)


def _with(place: Any, name: str, other: Callable[..., Any], body: Callable[[], Result]) -> Result:
    """Runs the body with something else under a name; the process may be used again."""
    real = getattr(place, name)
    setattr(place, name, other)
    try:
        return body()
    finally:
        setattr(place, name, real)


def counted_app() -> Langlauf:
    """An application of both."""
    made = Langlauf()
    made.analysis(counted_clustering)
    made.analysis(counted_ontology)
    return made


app = counted_app()
