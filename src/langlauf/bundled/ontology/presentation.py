"""What people see and read of the analysis `ontology`: views of a result, facts, and all of its texts in German."""

from typing import Any, Final

from langlauf.bundled.dependency import MISSING_PACKAGE, MISSING_PACKAGE_GERMAN
from langlauf.bundled.ontology.findings import KINDS
from langlauf.domain.result import AnyView, ChartView, Column, Fact, MarkdownView, TableView

# -- views -------------------------------------------------------------------------------------------------------------

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


# -- texts -------------------------------------------------------------------------------------------------------------

FACTS: Final = (
    Fact(key="ontology", label="Ontology"),
    Fact(key="terms", label="Terms"),
    Fact(key="first_run", label="First version"),
    Fact(key="changes", label="Changes"),
    Fact(key="added", label="Added"),
    Fact(key="removed", label="Removed"),
    Fact(key="renamed", label="Renamed"),
    Fact(key="moved", label="Moved"),
    Fact(key="merged", label="Merged"),
    Fact(key="obsoleted", label="Obsoleted"),
    Fact(key="findings", label="Findings in its structure"),
)
ENGLISH: Final = {"Text": "Ontology (OBO)", "Ontology": "Name of the ontology", "Previous": "Version to compare with"}
GERMAN: Final = {
    "Compare two versions of an ontology": "Zwei Versionen einer Ontologie vergleichen",
    "Compare a version of an ontology with the one before it: terms added, removed, renamed, obsoleted, moved, "
    "merged.": (
        "Vergleicht eine Version einer Ontologie mit der vorherigen: Begriffe, die neu, entfernt, umbenannt, veraltet, "
        "verschoben oder zusammengeführt sind."
    ),
    "The version before is `previous`, else the one of the org's last completed job for the same ontology. Reading, "
    "every namespace and the structure are checkpoints, so a restarted job goes on at the next namespace, and each "
    "ends in a partial result. A text that is no OBO fails with the code `bad_ontology`, and names the line.": (
        "Verglichen wird mit `previous`, sonst mit dem letzten abgeschlossenen Job der Organisation für dieselbe "
        "Ontologie. Nach jedem Namensraum gibt es einen Zwischenstand; ein unterbrochener Job macht beim nächsten "
        "weiter. Ein Text, der kein OBO ist, schlägt mit dem Code `bad_ontology` fehl und nennt die Zeile."
    ),
    "Text": "Ontologie (OBO)",
    "The ontology as an OBO document (format 1.2 or 1.4), at most 200 000 terms.": (
        "Die Ontologie als OBO-Dokument (Format 1.2 oder 1.4), höchstens 200 000 Begriffe."
    ),
    "Ontology": "Ontologie",
    "What the ontology is called, so that the next version finds this one. Without it, what the document's header says "
    "after `ontology:`.": (
        "Wie die Ontologie heisst, damit die nächste Version diese findet. Ohne Angabe, was im Kopf des Dokuments nach "
        "`ontology:` steht."
    ),
    "Previous": "Frühere Version",
    "The version to compare with, as an OBO document. Without it, the version of the last completed job of the same "
    "ontology.": (
        "Die Version, mit der verglichen wird, als OBO-Dokument. Ohne Angabe die des letzten abgeschlossenen Jobs "
        "derselben Ontologie."
    ),
    # facts
    "Terms": "Begriffe",
    "First version": "Erste Version",
    "Changes": "Änderungen",
    "Added": "Neu",
    "Removed": "Entfernt",
    "Renamed": "Umbenannt",
    "Moved": "Verschoben",
    "Merged": "Zusammengeführt",
    "Obsoleted": "Veraltet",
    "Revived": "Wieder gültig",
    "Namespace changed": "Namensraum geändert",
    "Definition changed": "Definition geändert",
    "Synonyms changed": "Synonyme geändert",
    "Definition or synonyms": "Definition oder Synonyme",
    "Other": "Andere",
    "Findings in its structure": "Befunde in der Struktur",
    # steps
    "Reading the document": "Dokument wird gelesen",
    "Reading the previous version": "Frühere Version wird gelesen",
    "Namespace {}": "Namensraum {}",
    "Namespace {} compared": "Namensraum {} verglichen",
    # errors
    MISSING_PACKAGE: MISSING_PACKAGE_GERMAN,
    "`{}` holds no [Term].": "`{}` enthält kein [Term].",
    "`{}` has {} terms; at most {} are compared.": "`{}` hat {} Begriffe; höchstens {} werden verglichen.",
    'Line {} of `{}` is no OBO: "" ({}).': "Zeile {} von `{}` ist kein OBO ({}).",
    'Line {} of `{}` is no OBO: "{}" ({}).': "Zeile {} von `{}` ist kein OBO: «{}» ({}).",
    # views
    "Summary": "Zusammenfassung",
    "**{}**, version {}: {} terms.": "**{}**, Version {}: {} Begriffe.",
    "**{}**: {} terms.": "**{}**: {} Begriffe.",
    "Compared with version {}, which had {} terms:": "Verglichen mit Version {}, die {} Begriffe hatte:",
    "Compared with the version before, which had {} terms:": (
        "Verglichen mit der vorherigen Version, die {} Begriffe hatte:"
    ),
    "No change.": "Keine Änderung.",
    "Findings:": "Befunde:",
    "No findings in its structure.": "Keine Befunde in der Struktur.",
    "There is no earlier version to compare with: this is the first one.": (
        "Es gibt keine frühere Version zum Vergleichen: Das ist die erste."
    ),
    "The last job for this ontology kept its terms in a form that cannot be read any more.": (
        "Der letzte Job für diese Ontologie hat seine Begriffe in einer Form gespeichert, die nicht mehr lesbar ist."
    ),
    "{} terms were {}; {} of them are listed.": "Begriffe ({1}): {0}; davon aufgeführt: {2}.",
    "added": "neu",
    "removed": "entfernt",
    "merged": "zusammengeführt",
    "obsoleted": "veraltet",
    "revived": "wieder gültig",
    "renamed": "umbenannt",
    "moved": "verschoben",
    "namespace changed": "Namensraum geändert",
    "redefined": "Definition geändert",
    "synonyms changed": "Synonyme geändert",
    "By namespace": "Nach Namensraum",
    "Change": "Änderung",
    "{} changes in {} namespaces.": "{} Änderungen in {} Namensräumen.",
    "{} terms in {} namespaces.": "{} Begriffe in {} Namensräumen.",
    "Circles of parents": "Kreise von Oberbegriffen",
    "Parents that are not in the document": "Oberbegriffe, die im Dokument fehlen",
    "Parents that are obsolete": "Veraltete Oberbegriffe",
    "Replacements that are not in the document": "Nachfolger, die im Dokument fehlen",
    "Alternative ids that are terms themselves": "Alternative IDs, die selbst Begriffe sind",
    "Ids with more than one frame": "IDs mit mehr als einem Eintrag",
    "Terms without a name": "Begriffe ohne Namen",
    "{}: {}": "{}: {}",
    "{} ({})": "{} ({})",
    "{} ({} of {})": "{} ({} von {})",
    "Namespace": "Namensraum",
    "Term": "Begriff",
    "Name": "Name",
    "Before": "Vorher",
    "Into": "In",
    "Replaced by": "Ersetzt durch",
    "New parents": "Neue Oberbegriffe",
    "Former parents": "Frühere Oberbegriffe",
    "Findings": "Befunde",
    "Finding": "Befund",
    "Refers to": "Bezieht sich auf",
    "Kind": "Art",
    "Count": "Anzahl",
}
