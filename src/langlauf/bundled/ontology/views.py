"""What people see of an ontology's changes: a summary in words, counts by namespace, and a table per kind of change."""

from typing import Any, Final

from langlauf.bundled.ontology.comparison import KINDS
from langlauf.domain.result import AnyView, ChartView, Column, MarkdownView, TableView

Result = dict[str, Any]

TITLES: Final = {
    "added": "Added",
    "removed": "Removed",
    "merged": "Merged",
    "obsoleted": "Obsoleted",
    "revived": "Revived",
    "renamed": "Renamed",
    "moved": "Moved",
    "namespace_changed": "Namespace changed",
    "redefined": "Definition changed",
    "synonyms_changed": "Synonyms changed",
}
_FINDINGS: Final = {
    "cycles": "Circles of parents",
    "dangling_parents": "Parents that are not in the document",
    "obsolete_parents": "Parents that are obsolete",
    "unknown_replacements": "Replacements that are not in the document",
    "alternatives_in_use": "Alternative ids that are terms themselves",
    "duplicates": "Ids with more than one frame",
    "unnamed": "Terms without a name",
}
_COLUMNS: Final = {
    "namespace": "Namespace",
    "id": "Term",
    "name": "Name",
    "before": "Before",
    "into": "Into",
    "replaced_by": "Replaced by",
    "parents_added": "New parents",
    "parents_removed": "Former parents",
}
#: Kinds that share a colour: more than eight cannot be distinguished.
_FAMILIES: Final = {
    "Added": ("added",),
    "Removed": ("removed",),
    "Merged": ("merged",),
    "Obsoleted": ("obsoleted",),
    "Renamed": ("renamed",),
    "Moved": ("moved",),
    "Definition or synonyms": ("redefined", "synonyms_changed"),
    "Other": ("revived", "namespace_changed"),
}
#: Pixels: of a bar with its room, and of a line in the legend, which must not be cut off.
_ROW: Final = 28
_LEGEND_ROW: Final = 18


def partial_views(result: Result) -> list[AnyView]:
    """Return what is known after some namespaces."""
    return [summary(result), namespaces_chart(result)]


def final_views(result: Result) -> list[AnyView]:
    """Return all views of a finished comparison."""
    return [
        summary(result),
        namespaces_chart(result),
        *(changes_table(result, kind) for kind in KINDS if kind in result["changes"]),
        *findings_tables(result),
    ]


def summary(result: Result) -> MarkdownView:
    """Return the changes and findings in words."""
    version = f", version {result['version']}" if result["version"] else ""
    lines = [f"**{result['ontology']}**{version}: {result['terms']:,} terms."]
    before = result["compared_with"]
    if before is not None:
        called = f"version {before['version']}" if before["version"] else "the version before"
        lines += ["", f"Compared with {called}, which had {before['terms']:,} terms:", ""]
        changes = [f"- {TITLES[kind]}: {count:,}" for kind, count in result["counts"].items() if count]
        lines += changes or ["- No change."]
    lines += ["", *(f"- {note}" for note in result["notes"])] if result["notes"] else []
    if result["findings"] is not None:
        found = [
            f"- {_FINDINGS[kind]}: {each['count']:,}" for kind, each in result["findings"].items() if each["count"]
        ]
        lines += ["", "Findings:", "", *found] if found else ["", "No findings in its structure."]
    return MarkdownView(title="Summary", text="\n".join(lines))


def namespaces_chart(result: Result) -> ChartView:
    """Return changes by namespace and kind, or terms by namespace without an earlier version."""
    first = result["first_run"]
    if first:
        values = [{"namespace": part["namespace"], "count": part["terms"]} for part in result["namespaces"]]
    else:
        values = [
            {"namespace": part["namespace"], "kind": family, "count": count}
            for part in result["namespaces"]
            for family, kinds in _FAMILIES.items()
            if (count := sum(part["counts"][kind] for kind in kinds))
        ]
    families = [family for family in _FAMILIES if any(value.get("kind") == family for value in values)]
    whole = {"format": ",d", "tickMinStep": 1}
    domain = {"scale": {"domain": families}}
    color = {} if first else {"color": {"field": "kind", "type": "nominal", "title": "Change", **domain}}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": values},
        "height": max(_ROW * max(len(result["namespaces"]), 2), _LEGEND_ROW * (len(families) + 2)),
        "mark": {"type": "bar", "tooltip": True, "size": 22},
        "encoding": {
            "y": {"field": "namespace", "type": "nominal", "title": None},
            "x": {"field": "count", "type": "quantitative", "title": "Terms" if first else "Changes", "axis": whole},
            **color,
        },
    }
    total = sum(value["count"] for value in values)
    what = "terms" if first else "changes"
    return ChartView(
        title="By namespace",
        spec=spec,
        summary=f"{total:,} {what} in {len(result['namespaces'])} namespaces.",
    )


def changes_table(result: Result, kind: str) -> TableView:
    """Return the terms of one kind of change, where they stand in the result; lists in them are put into words."""
    listed = result["changes"][kind]
    known = [name for name in _COLUMNS if name in listed[0]]
    columns = [Column(name=name, title=_COLUMNS[name]) for name in known]
    count = result["counts"][kind]
    of = f" ({len(listed):,} of {count:,})" if len(listed) < count else f" ({count:,})"
    if not any(isinstance(listed[0][name], list) for name in known):
        return TableView(title=TITLES[kind] + of, at=f"/changes/{kind}", columns=columns)
    rows = [{name: _text(row[name]) for name in known} for row in listed]
    return TableView(title=TITLES[kind] + of, rows=rows, columns=columns)


def findings_tables(result: Result) -> list[TableView]:
    """Return one table of all findings, where there are any."""
    rows = [
        {"finding": _FINDINGS[kind], "term": one.get("id") or ", ".join(one["terms"]), "other": _other(one)}
        for kind, each in (result["findings"] or {}).items()
        for one in each["listed"]
    ]
    if not rows:
        return []
    titles = {"finding": "Finding", "term": "Term", "other": "Refers to"}
    columns = [Column(name=name, title=title) for name, title in titles.items()]
    return [TableView(title="Findings", rows=rows, columns=columns)]


def _other(finding: dict[str, Any]) -> str:
    return str(finding.get("parent") or finding.get("replaced_by") or finding.get("alt_id") or "")


def _text(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value
