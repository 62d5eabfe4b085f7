"""What the groups of the best k are: sizes, centres in the units of the table, outliers, and a picture in two axes."""

from collections import Counter
from typing import Any, Final

import numpy as np
from sklearn.decomposition import PCA

from langlauf.bundled.clustering.columns import ColumnSelection, FeatureColumn
from langlauf.bundled.clustering.fitting import FeatureMatrix, Floats, Labels, known_numbers, sample

_MOST_POINTS: Final = 1_500
_MOST_OUTLIERS: Final = 20
_MOST_SHARES: Final = 3
#: So many typical deviations above the median distance of its group a row counts as an outlier.
_FAR: Final = 3.5
_TO_SIGMA: Final = 1.4826


def describe(
    matrix: FeatureMatrix, choice: ColumnSelection, best: dict[str, Any], rows: int, seed: int
) -> dict[str, Any]:
    """Describe the groups of one fit; `labels` has a number for every compared row of the table."""
    labels = np.array(best["labels"], dtype=np.int64)
    by_row: list[int | None] = [None] * rows
    for row, label in zip(matrix.rows, best["labels"], strict=True):
        by_row[row] = label
    return {
        "clusters": clusters(matrix, labels, best["silhouettes"]),
        "outliers": outliers(matrix, labels, choice),
        "scatter": scatter(matrix, labels, seed),
        "labels": by_row,
    }


def clusters(matrix: FeatureMatrix, labels: Labels, silhouettes: list[float | None]) -> list[dict[str, Any]]:
    """Return every group with its size, its silhouette and its centre."""
    found = []
    for number, silhouette in enumerate(silhouettes, start=1):
        members = [matrix.rows[at] for at in np.flatnonzero(labels == number)]
        found.append(
            {
                "cluster": number,
                "size": len(members),
                "share": _rounded(len(members) / matrix.count),
                "silhouette": silhouette,
                "center": {column.name: _center(column, members) for column in matrix.columns},
            }
        )
    return found


def _center(column: FeatureColumn, rows: list[int]) -> Any:
    """Return the mean of numbers, of what is known; of categories the most frequent and their shares."""
    if column.kind == "number":
        known = known_numbers(column, rows)
        known = known[~np.isnan(known)]
        return _rounded(float(known.mean())) if len(known) else None
    counts = Counter(column.texts[row] or "(missing)" for row in rows)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_SHARES]
    return {text: _rounded(count / len(rows)) for text, count in frequent}


def outliers(matrix: FeatureMatrix, labels: Labels, choice: ColumnSelection) -> dict[str, Any]:
    """Return rows that lie much further from the middle of their group than its other rows do, the furthest first."""
    far: list[dict[str, Any]] = []
    for number in range(1, int(np.max(labels)) + 1):
        places = np.flatnonzero(labels == number)
        distances = _distances(matrix.values[places])
        typical = float(np.median(distances))
        spread = _TO_SIGMA * float(np.median(np.abs(distances - typical)))
        if spread <= 0:
            continue
        for at, distance in zip(places, distances, strict=True):
            if (times := (float(distance) - typical) / spread) > _FAR:
                far.append({"row": matrix.rows[at] + 1, "cluster": number, "deviations": _rounded(times, 3)})
    far.sort(key=lambda one: (-one["deviations"], one["row"]))
    quoted = far[:_MOST_OUTLIERS]
    if (names := choice.row_names) is not None:
        quoted = [one | {"name": names[one["row"] - 1]} for one in quoted]
    return {"count": len(far), "furthest": quoted}


def _distances(members: Floats) -> Floats:
    return np.asarray(np.sqrt(((members - members.mean(axis=0)) ** 2).sum(axis=1)), dtype=np.float64)


def scatter(matrix: FeatureMatrix, labels: Labels, seed: int) -> dict[str, Any]:
    """Return the rows, or a sample of them, on the two axes along which they differ most."""
    axes = min(2, matrix.values.shape[1])
    model = PCA(n_components=axes, svd_solver="full")
    places = model.fit_transform(matrix.values)
    if axes == 1:
        places = np.hstack([places, np.zeros((len(places), 1))])
    rows = sample(matrix.count, _MOST_POINTS, seed)
    return {
        "explained": [_rounded(float(share), 4) for share in model.explained_variance_ratio_],
        "of": matrix.count,
        "points": [
            {
                "row": matrix.rows[at] + 1,
                "cluster": int(labels[at]),
                "x": _rounded(float(places[at, 0]), 5),
                "y": _rounded(float(places[at, 1]), 5),
            }
            for at in rows
        ],
    }


def _rounded(value: float, figures: int = 6) -> float:
    return float(f"{value:.{figures}g}")
