"""What people see of a clustering: the curve, the picture, the clusters, and the labels to take along."""

import csv
from io import StringIO
from typing import Any

from langlauf.domain.result import AnyView, ChartView, Column, FileView, MarkdownView, TableView

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
