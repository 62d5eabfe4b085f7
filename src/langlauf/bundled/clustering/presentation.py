"""What people see and read of the analysis `clustering`: views of a result, facts, and all of its texts in German."""

import csv
from io import StringIO
from typing import Any, Final

from langlauf.bundled.dependency import MISSING_PACKAGE, MISSING_PACKAGE_GERMAN
from langlauf.domain.result import AnyView, ChartView, Column, Fact, FileView, MarkdownView, TableView

# -- views -------------------------------------------------------------------------------------------------------------

Result = dict[str, Any]


def partial_views(result: Result) -> list[AnyView]:
    """Return the curve so far."""
    return [curve_chart(result), curve_table(result)]


def final_views(result: Result) -> list[AnyView]:
    """Return all views of a finished clustering, the answer first."""
    return [
        answer(result),
        scatter_chart(result),
        clusters_table(result),
        curve_chart(result),
        curve_table(result),
        *outliers_table(result),
        labels_file(result),
    ]


def answer(result: Result) -> MarkdownView:
    """Return the best k, its reasons, and what should be known about it."""
    best = result["best"]
    lines = [f"**{best['k']} clusters** fit these rows best.", "", *(f"- {reason}" for reason in best["reasons"])]
    if result["notes"]:
        lines += ["", "Worth knowing:", "", *(f"- {note}" for note in result["notes"])]
    return MarkdownView(title="Why this k", text="\n".join(lines))


def curve_chart(result: Result) -> ChartView:
    """Return the silhouette of every k, the best one marked."""
    best = result["best"]["k"] if result["best"] else None
    values = [
        {"k": one["k"], "silhouette": one["silhouette"], "best": one["k"] == best}
        for one in result["curve"]
        if one["silhouette"] is not None
    ]
    x = {"field": "k", "type": "ordinal", "title": "Clusters (k)", "axis": {"labelAngle": 0}}
    y = {"field": "silhouette", "type": "quantitative", "title": "Silhouette"}
    size = {"condition": {"test": "datum.best", "value": 160}, "value": 50}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "line"}, "encoding": {"x": x, "y": y}},
            {"mark": {"type": "point", "filled": True, "tooltip": True}, "encoding": {"x": x, "y": y, "size": size}},
        ],
    }
    found = f"k = {best} fits best, with {result['best']['silhouette']:.3f}" if best else "none could be measured"
    return ChartView(title="Silhouette", spec=spec, summary=f"Silhouettes of {len(values)} values of k: {found}.")


def curve_table(result: Result) -> TableView:
    """Return the same as figures, with the other measures."""
    measured = [key for key in ("silhouette", "inertia", "bic") if any(one[key] is not None for one in result["curve"])]
    titles = {"silhouette": "Silhouette", "inertia": "Inertia", "bic": "BIC"}
    columns = [Column(name="k", title="k"), *(Column(name=key, title=titles[key]) for key in measured)]
    return TableView(title="Measures", at="/curve", columns=columns)


def scatter_chart(result: Result) -> ChartView:
    """Return the rows on their first two principal components, coloured by cluster."""
    scatter = result["scatter"]
    shares = [*scatter["explained"], 0.0][:2]
    titles = [f"Component {number} ({share:.0%} of the variance)" for number, share in enumerate(shares, start=1)]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": scatter["points"]},
        "height": 400,
        "mark": {"type": "point", "filled": True, "opacity": 0.7, "tooltip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": titles[0]},
            "y": {"field": "y", "type": "quantitative", "title": titles[1]},
            "color": {"field": "cluster", "type": "nominal", "title": "Cluster"},
        },
    }
    shown = len(scatter["points"])
    rows = f"{shown:,} rows" if shown == scatter["of"] else f"A sample of {shown:,} of {scatter['of']:,} rows"
    summary = (
        f"{rows} in {len(result['clusters'])} clusters, on two axes that hold {sum(shares):.0%} of their variance."
    )
    return ChartView(title="Scatter", spec=spec, summary=summary)


def clusters_table(result: Result) -> TableView:
    """Return a row per cluster, with its centre in the units of the table."""
    rows = [
        {"cluster": one["cluster"], "size": one["size"], "share": one["share"], "silhouette": one["silhouette"]}
        | {f"center:{name}": _center(value) for name, value in one["center"].items()}
        for one in result["clusters"]
    ]
    columns = [
        Column(name="cluster", title="Cluster"),
        Column(name="size", title="Rows"),
        Column(name="share", title="Share"),
        Column(name="silhouette", title="Silhouette"),
        *(Column(name=f"center:{used['column']}", title=used["column"]) for used in result["table"]["used"]),
    ]
    return TableView(title="Clusters", rows=rows, columns=columns)


def _center(value: Any) -> Any:
    """Return the share of each frequent category as one text; numbers as they are."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{text} {share:.0%}" for text, share in value.items())


def outliers_table(result: Result) -> list[TableView]:
    """Return the rows furthest from the others of their cluster, where there are any."""
    furthest = result["outliers"]["furthest"]
    if not furthest:
        return []
    columns = [
        Column(name="row", title="Row"),
        *([Column(name="name", title="Name")] if "name" in furthest[0] else []),
        Column(name="cluster", title="Cluster"),
        Column(name="deviations", title="Deviations from the typical distance"),
    ]
    return [TableView(title="Outliers", at="/outliers/furthest", columns=columns)]


def labels_file(result: Result) -> FileView:
    """Return the cluster of every row, as CSV."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "cluster"])
    writer.writerows((row, "" if label is None else label) for row, label in enumerate(result["labels"], start=1))
    return FileView(title="Labels", name="labels.csv", media_type="text/csv", data=text.getvalue().encode())


# -- texts -------------------------------------------------------------------------------------------------------------

FACTS: Final = (
    Fact(key="best_k", label="Best number of clusters"),
    Fact(key="silhouette", label="Silhouette (−1 to 1)"),  # noqa: RUF001 - a minus sign
    Fact(key="tried", label="Tried"),
    Fact(key="rows", label="Rows"),
    Fact(key="columns", label="Columns compared"),
)
ENGLISH: Final = {"K min": "Fewest clusters", "K max": "Most clusters", "Scale": "Weigh all columns the same"}
GERMAN: Final = {
    "Group the rows of a table": "Zeilen einer Tabelle gruppieren",
    "Group the rows of a table with scikit-learn for every k from `k_min` to `k_max`, and say which k fits best.": (
        "Gruppiert die Zeilen einer Tabelle mit scikit-learn für jedes k von `k_min` bis `k_max` und sagt, welches am "
        "besten passt."
    ),
    "Every k is a checkpoint, so a restarted job goes on at the next one, and ends in a partial result with the curve "
    "so far. A table that cannot be used fails with the code `bad_table`, and names row and column.": (
        "Nach jedem k gibt es einen Zwischenstand; ein unterbrochener Job macht beim nächsten k weiter. Eine "
        "unbrauchbare Tabelle schlägt mit dem Code `bad_table` fehl und nennt Zeile und Spalte."
    ),
    "Table": "Tabelle",
    "The table, as CSV or as JSON (a list of objects or a list of lists). Delimiter, header and decimal comma are "
    "found out. At most 100 000 rows and 200 columns.": (
        "Die Tabelle als CSV oder JSON (eine Liste von Objekten oder von Listen). Trennzeichen, Kopfzeile und "
        "Dezimalkomma werden erkannt. Höchstens 100 000 Zeilen und 200 Spalten."
    ),
    "Columns": "Spalten",
    "The columns to compare. Without them, every column of numbers and every text column with at most 12 different "
    "values.": (
        "Die Spalten, die verglichen werden. Ohne Angabe alle Spalten mit Zahlen und alle Textspalten mit höchstens 12 "
        "verschiedenen Werten."
    ),
    "K min": "Kleinste Anzahl Gruppen",
    "The smallest number of clusters to try.": "Die kleinste Anzahl Gruppen, die probiert wird.",
    "K max": "Grösste Anzahl Gruppen",
    "The largest number of clusters to try; at least the fewest, `k_min`.": (
        "Die grösste Anzahl Gruppen, die probiert wird; mindestens die kleinste, `k_min`."
    ),
    "Method": "Methode",
    "`kmeans` for round groups, `gaussian` for long ones (chosen by BIC), `agglomerative` for a tree of groups (at "
    "most 5 000 rows).": (
        "`kmeans` für runde Gruppen, `gaussian` für längliche (gewählt nach BIC), `agglomerative` für einen Baum von "
        "Gruppen (höchstens 5 000 Zeilen)."
    ),
    "kmeans": "kmeans: runde Gruppen",
    "gaussian": "gaussian: längliche Gruppen",
    "agglomerative": "agglomerative: Baum von Gruppen",
    "Scale": "Alle Spalten gleich gewichten",
    "Whether every column of numbers counts the same, whatever its unit.": (
        "Ob jede Spalte mit Zahlen gleich viel zählt, unabhängig von ihrer Einheit."
    ),
    "Seed": "Startwert",
    "The same seed gives the same result.": "Gleicher Startwert, gleiches Resultat.",
    # facts
    "Best number of clusters": "Beste Anzahl Gruppen",
    "Silhouette (−1 to 1)": "Silhouette (−1 bis 1)",  # noqa: RUF001 - a minus sign
    "Tried": "Probiert",
    "Rows": "Zeilen",
    "Columns compared": "Verglichene Spalten",
    "k = {} to {}": "k = {} bis {}",
    # steps
    "Reading the table": "Tabelle wird gelesen",
    "k = {}": "k = {}",
    "k = {} measured": "k = {} gemessen",
    # errors
    MISSING_PACKAGE: MISSING_PACKAGE_GERMAN,
    "The most clusters (k_max) are {} and the fewest (k_min) {}; k_max must not be smaller.": (
        "Die grösste Anzahl Gruppen (k_max) ist {} und die kleinste (k_min) {}; k_max darf nicht kleiner sein."
    ),
    "The method agglomerative takes at most {} rows, and the table has {}; use kmeans or gaussian.": (
        "Die Methode agglomerative nimmt höchstens {} Zeilen, und die Tabelle hat {}; kmeans oder gaussian wählen."
    ),
    "Only {} rows differ, too few for {} clusters.": "Nur {} Zeilen sind verschieden, zu wenige für {} Gruppen.",
    "No k gave groups that could be measured: {}": "Kein k ergab Gruppen, die sich messen liessen: {}",
    "all rows fell into one.": "Alle Zeilen fielen in dieselbe.",
    "The table is empty.": "Die Tabelle ist leer.",
    "The table has a header and no rows.": "Die Tabelle hat eine Kopfzeile und keine Zeilen.",
    "The table has more than {} rows.": "Die Tabelle hat mehr als {} Zeilen.",
    "The table has {} columns; at most {} are taken.": "Die Tabelle hat {} Spalten; höchstens {} sind möglich.",
    "The table has more than {} columns by row {}.": "Die Tabelle hat bis Zeile {1} mehr als {0} Spalten.",
    "Row {} (line {}) has {}, the header has {}.": "Zeile {} (Textzeile {}) hat {}, die Kopfzeile {}.",
    "Row {} (line {}) has {}, the first row has {}.": "Zeile {} (Textzeile {}) hat {}, die erste Zeile {}.",
    "Row {} has {} cells, the first row has {}.": "Zeile {} hat {} Zellen, die erste Zeile {}.",
    "1 cell": "1 Zelle",
    "{} cells": "{} Zellen",
    "The table cannot be read as CSV from line {} on: {}.": "Ab Textzeile {} ist die Tabelle nicht als CSV lesbar: {}.",
    "Columns {} and {} are both called {}; names must differ.": (
        "Die Spalten {} und {} heissen beide {}; Namen müssen verschieden sein."
    ),
    "Two columns are called {}; names must differ.": "Zwei Spalten heissen {}; Namen müssen verschieden sein.",
    "The table begins like JSON and is none: {}.": "Die Tabelle beginnt wie JSON und ist keines: {}.",
    "A table in JSON is a list of objects or a list of lists.": (
        "Eine Tabelle in JSON ist eine Liste von Objekten oder eine Liste von Listen."
    ),
    "Row {} is no object, the first row is one.": "Zeile {} ist kein Objekt, die erste Zeile schon.",
    "Row {} is no list, the first row is one.": "Zeile {} ist keine Liste, die erste Zeile schon.",
    "Every row must be an object, or a list of 1 to {} cells.": (
        "Jede Zeile muss ein Objekt sein oder eine Liste mit 1 bis {} Zellen."
    ),
    "Row {}, column {}: a cell is a number, a text, true, false or null.": (
        "Zeile {}, Spalte {}: Eine Zelle ist eine Zahl, ein Text, true, false oder null."
    ),
    "The table has {} rows to compare, {} of them different; clusters need at least {} rows, 3 of them different.": (
        "Die Tabelle hat {} Zeilen zum Vergleichen, davon {} verschiedene; Gruppen brauchen mindestens {} Zeilen, "
        "davon 3 verschiedene."
    ),
    "The columns and their categories make {} features; at most {}.": (
        "Die Spalten und ihre Kategorien ergeben {} Merkmale; höchstens {} sind möglich."
    ),
    "No column can be compared: {}.": "Keine Spalte lässt sich vergleichen: {}.",
    "{}; {}": "{}; {}",
    "{} is empty": "{} ist leer",
    "{} is empty in {} of {} rows": "{} ist in {} von {} Zeilen leer",
    "{} has the same value in every row": "{} hat in jeder Zeile denselben Wert",
    "{} numbers the rows": "{} nummeriert die Zeilen",
    "{} holds {} different texts": "{} enthält {} verschiedene Texte",
    "The table has no column {}; did you mean {}?": "Die Tabelle hat keine Spalte {}; ist {} gemeint?",
    "The table has no column {}; it has {}.": "Die Tabelle hat keine Spalte {}; sie hat {}.",
    "Column {} holds {} different texts; at most {} can be compared.": (
        "Die Spalte {} enthält {} verschiedene Texte; höchstens {} lassen sich vergleichen."
    ),
    "{}, column {}: {} is no number up to {}.": "{}, Spalte {}: {} ist keine Zahl bis {}.",
    "{}, column {}: {} is no number up to {} ({} more cells of this column are none either).": (
        "{}, Spalte {}: {} ist keine Zahl bis {} ({} weitere Zellen dieser Spalte auch nicht)."
    ),
    "Row {}": "Zeile {}",
    "Row {} (line {})": "Zeile {} (Textzeile {})",
    # views
    "Why this k": "Warum dieses k",
    "**{} clusters** fit these rows best.": "**{} Gruppen** passen am besten zu diesen Zeilen.",
    "Worth knowing:": "Gut zu wissen:",
    "k = {} has the highest silhouette, {}; the next best is k = {} with {}.": (
        "k = {} hat die höchste Silhouette, {}; am nächsten kommt k = {} mit {}."
    ),
    "k = {} has the lowest BIC, {}; the next best is k = {} with {}.": (
        "k = {} hat den tiefsten BIC, {}; am nächsten kommt k = {} mit {}."
    ),
    "k = {} is the only one that could be measured, with a {} of {}.": ("Nur k = {} liess sich messen; Wert ({}): {}."),
    "A silhouette of {} speaks for groups that are clearly apart.": (
        "Eine Silhouette von {} spricht für klar getrennte Gruppen."
    ),
    "A silhouette of {} speaks for groups that touch each other.": (
        "Eine Silhouette von {} spricht für Gruppen, die sich berühren."
    ),
    "A silhouette of {} is low: the rows may not fall into groups at all.": (
        "Eine Silhouette von {} ist tief: Vielleicht bilden die Zeilen gar keine Gruppen."
    ),
    "The curve of the inertia bends most at k = {}, which agrees.": (
        "Die Kurve der Trägheit knickt bei k = {} am stärksten, was dazu passt."
    ),
    "The curve of the inertia bends most at k = {}, a second opinion.": (
        "Die Kurve der Trägheit knickt dagegen bei k = {} am stärksten."
    ),
    "Read with a decimal comma: {}.": "Mit Dezimalkomma gelesen: {}.",
    "{} rows without a value were left out.": "Zeilen ohne Wert, weggelassen: {}.",
    "Only {} rows differ, so k ends at {}.": "Nur {} Zeilen sind verschieden; darum endet k bei {}.",
    "Scatter": "Streudiagramm",
    "Component {} ({} of the variance)": "Komponente {} ({} der Varianz)",
    "Cluster": "Gruppe",
    "{} rows in {} clusters, on two axes that hold {} of their variance.": (
        "{} Zeilen in {} Gruppen, auf zwei Achsen mit {} ihrer Varianz."
    ),
    "A sample of {} of {} rows in {} clusters, on two axes that hold {} of their variance.": (
        "Eine Stichprobe von {} der {} Zeilen in {} Gruppen, auf zwei Achsen mit {} ihrer Varianz."
    ),
    "Silhouette": "Silhouette",
    "Clusters (k)": "Gruppen (k)",
    "Silhouettes of {} values of k: k = {} fits best, with {}.": (
        "Silhouetten von {} Werten für k: k = {} passt am besten, mit {}."
    ),
    "Silhouettes of {} values of k: none could be measured.": (
        "Silhouetten von {} Werten für k: Keine liess sich messen."
    ),
    "Measures": "Masszahlen",
    "Inertia": "Trägheit",
    "BIC": "BIC",
    "k": "k",
    "K": "k",
    "Best": "Beste",
    "X": "x",
    "Y": "y",
    "Row": "Zeile",
    "Clusters": "Gruppen",
    "Share": "Anteil",
    "Name": "Name",
    "Deviations from the typical distance": "Abweichungen vom üblichen Abstand",
    "Outliers": "Ausreisser",
    "Labels": "Zuordnung",
}
