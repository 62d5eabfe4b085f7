"""The chosen columns as a matrix, the groups that are found in it, and what the groups of the best k are."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_samples
from sklearn.mixture import GaussianMixture

from langlauf.bundled.clustering.columns import ColumnSelection, FeatureColumn
from langlauf.bundled.clustering.table import table_error
from langlauf.bundled.dependency import require_package

# -- matrix and groups -------------------------------------------------------------------------------------------------

Floats = npt.NDArray[np.float64]

MOST_FEATURES: Final = 400
_FEWEST_ROWS: Final = 4
_NO_VALUE: Final = "(missing)"


class FeatureMatrix(msgspec.Struct, frozen=True):
    """What is compared. `rows` says which row of the table each row of the matrix is, from 0."""

    values: Floats
    rows: list[int]
    columns: list[FeatureColumn]
    distinct: int
    gaps: list[dict[str, Any]]

    @property
    def count(self) -> int:
        """How many rows are compared."""
        return len(self.rows)


def build_matrix(columns: list[FeatureColumn], *, scale: bool) -> FeatureMatrix:
    """Build the matrix. Rows without a value are left out; gaps get the column's median or their own category."""
    total = len(columns[0].numbers or columns[0].texts)
    rows = [row for row in range(total) if any(cells_of(column)[row] is not None for column in columns)]
    parts: list[Floats] = []
    kept: list[FeatureColumn] = []
    for column in columns:
        part = _numbers(column, rows, scale=scale) if column.kind == "number" else _categories(column, rows)
        if part is not None:
            parts.append(part)
            kept.append(column)
    if not kept:
        raise table_error("No column can be compared: their values are too close together.")
    values = np.hstack(parts)
    if values.shape[1] > MOST_FEATURES:
        raise table_error(f"The columns and their categories make {values.shape[1]} features; at most {MOST_FEATURES}.")
    distinct = len(np.unique(values, axis=0))
    if len(rows) < _FEWEST_ROWS or distinct <= 2:  # noqa: PLR2004
        raise table_error(
            f"The table has {len(rows)} rows to compare, {distinct} of them different; clusters need at least "
            f"{_FEWEST_ROWS} rows, 3 of them different."
        )
    return FeatureMatrix(values, rows, kept, distinct, [gap for column in kept if (gap := _gap(column, rows))])


def cells_of(column: FeatureColumn) -> list[float | None] | list[str | None]:
    """Return the cells of a column, whatever it holds."""
    return column.numbers if column.kind == "number" else column.texts


def known_numbers(column: FeatureColumn, rows: list[int]) -> Floats:
    """Return the numbers of some rows, NaN where one is missing."""
    return np.array([np.nan if (value := column.numbers[row]) is None else value for row in rows], dtype=np.float64)


def _numbers(column: FeatureColumn, rows: list[int], *, scale: bool) -> Floats | None:
    values = known_numbers(column, rows)
    values = np.where(np.isnan(values), np.nanmedian(values), values)
    deviation = float(values.std())
    if not deviation > 0 or not np.isfinite(deviation):
        return None
    return ((values - values.mean()) / deviation if scale else values).reshape(-1, 1)


def _categories(column: FeatureColumn, rows: list[int]) -> Floats:
    """Return one feature per category, 1 where the row has it."""
    texts = [column.texts[row] or _NO_VALUE for row in rows]
    places = {text: at for at, text in enumerate(sorted(set(texts)))}
    spread = np.zeros((len(rows), len(places)))
    spread[np.arange(len(rows)), [places[text] for text in texts]] = 1.0
    return spread


def _gap(column: FeatureColumn, rows: list[int]) -> dict[str, Any] | None:
    empty = sum(cells_of(column)[row] is None for row in rows)
    if not empty:
        return None
    if column.kind == "category":
        return {"column": column.name, "cells": empty, "filled_with": "a category of its own"}
    median = float(f"{float(np.nanmedian(known_numbers(column, rows))):.6g}")
    return {"column": column.name, "cells": empty, "filled_with": f"the median, {median:g}"}


Method = Literal["kmeans", "gaussian", "agglomerative"]
Labels = npt.NDArray[np.int64]

#: A silhouette compares every row with every other, so it is measured on a sample of larger tables.
SILHOUETTE_ROWS: Final = 3_000
#: The tree of the agglomerative method grows with the square of the rows.
MOST_ROWS_AGGLOMERATIVE: Final = 5_000
_FULL_COVARIANCE_UP_TO: Final = 10


def fit(values: Floats, k: int, method: Method, seed: int) -> dict[str, Any]:
    """Return the labels from 1 on, larger groups first, with silhouette, inertia and BIC; warnings become notes."""
    with warnings.catch_warnings(record=True) as caught, _one_thread():
        warnings.simplefilter("always")
        try:
            found, bic = _METHODS[method](values, k, seed)
            problem = None
        except ValueError as error:
            found, bic, problem = np.zeros(len(values), dtype=np.int64), None, str(error)
        labels = by_size(found)
        groups = int(np.max(labels))
        per_group = _silhouettes(values, labels, seed) if problem is None and groups > 1 else None
    notes = [_note(k, str(one.message)) for one in caught] + ([_note(k, problem)] if problem else [])
    return {
        "k": k,
        "found": groups if problem is None else None,
        "silhouette": None if per_group is None else per_group["mean"],
        "silhouettes": None if per_group is None else per_group["groups"],
        "inertia": _figure(inertia(values, labels)) if problem is None else None,
        "bic": None if bic is None else _figure(bic),
        "labels": labels.tolist() if problem is None else None,
        "notes": list(dict.fromkeys(notes)),
    }


def _kmeans(values: Floats, k: int, seed: int) -> tuple[Labels, float | None]:
    return KMeans(n_clusters=k, n_init=10, random_state=seed).fit_predict(values).astype(np.int64), None


def _gaussian(values: Floats, k: int, seed: int) -> tuple[Labels, float | None]:
    kind = "full" if values.shape[1] <= _FULL_COVARIANCE_UP_TO else "diag"
    model = GaussianMixture(k, covariance_type=kind, n_init=3, random_state=seed, reg_covar=1e-6)
    labels = model.fit_predict(values).astype(np.int64)
    return labels, float(model.bic(values))


def _agglomerative(values: Floats, k: int, _seed: int) -> tuple[Labels, float | None]:
    return AgglomerativeClustering(n_clusters=k, linkage="ward").fit_predict(values).astype(np.int64), None


_METHODS: Final[dict[Method, Callable[[Floats, int, int], tuple[Labels, float | None]]]] = {
    "kmeans": _kmeans,
    "gaussian": _gaussian,
    "agglomerative": _agglomerative,
}


def by_size(found: Labels) -> Labels:
    """Return the groups numbered from 1 on: larger ones first, those of equal size by their first row."""
    groups, first, sizes = np.unique(found, return_index=True, return_counts=True)
    order = sorted(range(len(groups)), key=lambda at: (-int(sizes[at]), int(first[at])))
    numbers = np.zeros(int(np.max(groups)) + 1, dtype=np.int64)
    for number, at in enumerate(order, start=1):
        numbers[groups[at]] = number
    return numbers[found]


def inertia(values: Floats, labels: Labels) -> float:
    """Return the sum of squared distances to the middle of the own group."""
    return float(sum(((members - members.mean(axis=0)) ** 2).sum() for members in _groups(values, labels)))


def _groups(values: Floats, labels: Labels) -> list[Floats]:
    return [values[labels == group] for group in range(1, int(np.max(labels)) + 1)]


def sample(count: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    """Return at most so many row numbers, in order and the same for the same seed."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def _silhouettes(values: Floats, labels: Labels, seed: int) -> dict[str, Any] | None:
    rows = sample(len(values), SILHOUETTE_ROWS, seed)
    own = labels[rows]
    if not 1 < len(np.unique(own)) < len(rows):
        return None
    scores = silhouette_samples(values[rows], own)
    groups = [scores[own == group] for group in range(1, int(np.max(labels)) + 1)]
    return {
        "mean": _figure(float(scores.mean())),
        "groups": [_figure(float(members.mean())) if len(members) else None for members in groups],
    }


def _figure(value: float) -> float:
    """Six figures: what differs beyond them differs by the machine."""
    return float(f"{value:.6g}")


def _note(k: int, text: str) -> str:
    first = " ".join(text.split()).removesuffix(".")
    return f"k = {k}: {first[:300]}."


def _one_thread() -> Any:
    """Sums by several threads come in any order; with one, the same seed gives the same figures."""
    return require_package("clustering", "threadpoolctl", "scikit-learn").threadpool_limits(limits=1)


# -- description -------------------------------------------------------------------------------------------------------

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
