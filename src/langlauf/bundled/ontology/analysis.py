"""The analysis `ontology`: a version of an ontology against the one before it, one namespace after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from langlauf.analysis.payload import Result
from langlauf.domain.view import AnyView

from . import previous as earlier
from .comparing import KINDS, Comparison
from .reading import read_index
from .showing import final_views, partial_views
from .structure import findings
from .terms import LONGEST_TEXT, Index, compact, index_from

Text = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=LONGEST_TEXT,
        description="The ontology as an OBO document (format 1.2 or 1.4), at most 200 000 terms.",
        examples=["format-version: 1.2\nontology: demo\n\n[Term]\nid: D:1\nname: root\n"],
    ),
]
Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        description="What the ontology is called, so that the next version finds this one. Without it, what the "
        "document's header says after `ontology:`.",
        examples=["demo"],
    ),
]
PreviousText = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=LONGEST_TEXT,
        description="The version to compare with, as an OBO document. Without it, the version of the last completed "
        "job of the same ontology.",
    ),
]


class JobHandle(Protocol):
    """What this analysis asks of the job it runs in."""

    def checkpoint(self, key: str, function: Callable[..., Any], /, *args: Any) -> Any:
        """The stored result of the function under `key`, run once ever for the job."""
        ...

    def partial(
        self, payload: Any, *, summary: Any = None, step: str | None = None, views: Sequence[AnyView] = ()
    ) -> object:
        """Store a snapshot that people can look at."""
        ...

    def previous(self, /, **match: Any) -> Any:
        """The result of the org's last completed job of this analysis whose input has these values; else None."""
        ...

    def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Tell how far the job is."""
        ...

    def chunks(self, items: Iterable[str], step: str | None = None) -> Iterator[str]:
        """Every item, with progress reported on the way."""
        ...


def ontology(job: JobHandle, text: Text, ontology: Name | None = None, previous: PreviousText | None = None) -> Result:
    """Compare a version of an ontology with the one before it: terms added, removed, renamed, obsoleted, moved, merged.

    The version before is `previous`, else the one of the org's last completed job for the same ontology. Reading, every
    namespace and the structure are checkpoints, so a restarted job goes on at the next namespace, and each ends in a
    partial result. A text that is no OBO fails with the code `bad_ontology`, and names the line.
    """
    job.progress(0, "Reading the document")
    now = _index(job.checkpoint("read", read_index, text, "text"))
    name = ontology or now.ontology
    if previous is not None:
        job.progress(0, "Reading the previous version")
        found = job.checkpoint("previous", earlier.from_text, previous)
    else:
        found = job.checkpoint("previous", earlier.from_last_job, job.previous, name)
    before = index_from(found["index"])
    comparison = Comparison(now, before)
    report = _Report(name, now, before, found["source"])
    places = {namespace: number for number, namespace in enumerate(comparison.namespaces)}
    for namespace in job.chunks(list(places), step="Namespace {}"):
        report.compared.append(job.checkpoint(f"namespace-{places[namespace]}", comparison.compare, namespace))
        so_far = report.result()
        job.partial(
            so_far, summary=so_far["summary"], step=f"Namespace {namespace} compared", views=partial_views(so_far)
        )
    report.findings = job.checkpoint("structure", findings, now)
    result = report.result()
    return Result(result | {"index": compact(now)}, views=final_views(result))


def _index(stored: Any) -> Index:
    index = index_from(stored)
    if index is None:
        raise RuntimeError("the index that was kept for this job cannot be read")
    return index


class _Report:
    """The result as far as it is known."""

    def __init__(self, name: str, now: Index, before: Index | None, source: str | None) -> None:
        self._name, self._now, self._before, self._source = name, now, before, source
        self.compared: list[dict[str, Any]] = []
        self.findings: dict[str, Any] | None = None

    def result(self) -> dict[str, Any]:
        """What people see."""
        counts = {kind: sum(part["counts"][kind] for part in self.compared) for kind in KINDS}
        changes = {
            kind: [
                {"namespace": part["namespace"], **change}
                for part in self.compared
                for change in part["changes"].get(kind, ())
            ]
            for kind in KINDS
        }
        return {
            "summary": self._summary(counts),
            "ontology": self._name,
            "version": self._now.version,
            "terms": len(self._now.terms),
            "first_run": self._before is None,
            "compared_with": self._compared_with(),
            "namespaces": [
                {key: part[key] for key in ("namespace", "terms", "terms_before", "obsolete", "counts")}
                for part in self.compared
            ],
            "counts": counts,
            "changes": {kind: listed for kind, listed in changes.items() if listed},
            "findings": self.findings,
            "notes": self._notes(counts, changes),
        }

    def _summary(self, counts: dict[str, int]) -> dict[str, Any]:
        summary: dict[str, Any] = {"ontology": self._name, "terms": len(self._now.terms)}
        if self._before is None:
            summary["first_run"] = True
        else:
            summary["changes"] = sum(counts.values())
            summary |= {kind: counts[kind] for kind in ("added", "removed", "obsoleted", "merged", "renamed", "moved")}
        if self.findings is not None:
            summary["findings"] = sum(each["count"] for each in self.findings.values())
        return summary

    def _compared_with(self) -> dict[str, Any] | None:
        if self._before is None:
            return None
        return {
            "source": self._source,
            "version": self._before.version,
            "terms": len(self._before.terms),
            "read_at": self._before.read_at,
        }

    def _notes(self, counts: dict[str, int], changes: dict[str, list[Any]]) -> list[str]:
        notes = []
        if self._before is None:
            notes.append("There is no earlier version to compare with: this is the first one.")
        if self._source == "unreadable":
            notes.append("The last job for this ontology kept its terms in a form that cannot be read any more.")
        notes += [
            f"{counts[kind]:,} terms were {kind.replace('_', ' ')}; {len(changes[kind]):,} of them are listed."
            for kind in KINDS
            if len(changes[kind]) < counts[kind]
        ]
        return notes
