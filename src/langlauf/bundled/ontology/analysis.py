"""The analysis `ontology`: a version of an ontology against the one before it, one namespace after the other."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from langlauf.analysis.payload import Result
from langlauf.analysis.plain_job import PlainJob
from langlauf.bundled.ontology.findings import KINDS, Comparison, findings
from langlauf.bundled.ontology.obo import LONGEST_TEXT, TermIndex, compact, index_from, read_index
from langlauf.bundled.ontology.presentation import final_views, partial_views

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


def ontology(job: PlainJob, text: Text, ontology: Name | None = None, previous: PreviousText | None = None) -> Result:
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
        found = job.checkpoint("previous", from_text, previous)
    else:
        found = job.checkpoint("previous", from_last_job, job.previous, name)
    before = index_from(found["index"])
    comparison = Comparison(now, before)
    report = _ComparisonReport(name, now, before, found["source"])
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


def _index(stored: Any) -> TermIndex:
    index = index_from(stored)
    if index is None:
        raise RuntimeError("the index that was kept for this job cannot be read")
    return index


class _ComparisonReport:
    """The result as far as it is known."""

    def __init__(self, name: str, now: TermIndex, before: TermIndex | None, source: str | None) -> None:
        self._name, self._now, self._before, self._source = name, now, before, source
        self.compared: list[dict[str, Any]] = []
        self.findings: dict[str, Any] | None = None

    def result(self) -> dict[str, Any]:
        """Return what people see."""
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


def from_text(text: str) -> dict[str, Any]:
    """Return the earlier version that was sent along."""
    return {"source": "parameter", "index": read_index(text, "previous")}


def from_last_job(previous: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return what the last job kept; it is kept with this job as well, so that the next attempt compares with the same.

    A job may have named the ontology or left that to its document; the one that read later counts.
    """
    found = [previous(ontology=name), previous(ontology=None)]
    kept = [result["index"] for result in found if _is_of(name, result)]
    if not kept:
        return {"source": None, "index": None}
    usable = [index for index in kept if index_from(index) is not None]
    if not usable:
        return {"source": "unreadable", "index": None}
    return {"source": "last_job", "index": max(usable, key=lambda index: str(index["read_at"]))}


def _is_of(name: str, result: Any) -> bool:
    return isinstance(result, dict) and result.get("ontology") == name and "index" in result
