"""The analysis `clustering`: a table, and the groups its rows fall into, one k after the other."""

from typing import Annotated, Any, Final, Literal

import msgspec

from langlauf.analysis.payload import Result
from langlauf.analysis.plain_job import PlainJob
from langlauf.bundled.clustering.columns import ColumnSelection, select_columns
from langlauf.bundled.clustering.presentation import final_views, partial_views
from langlauf.bundled.clustering.table import LONGEST_TABLE, InputTable, read_table, table_error
from langlauf.bundled.dependency import require_package
from langlauf.domain.errors import PermanentError

TableText = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=LONGEST_TABLE,
        description="The table, as CSV or as JSON (a list of objects or a list of lists). Delimiter, header and "
        "decimal comma are found out. At most 100 000 rows and 200 columns.",
        examples=["height;width\n1,2;3,4\n1,3;3,5\n7,5;0,4\n7,4;0,5\n"],
    ),
]
Columns = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1)]],
    msgspec.Meta(
        max_length=200,
        description="The columns to compare. Without them, every column of numbers and every text column with at most "
        "12 different values.",
        examples=[["height", "width"]],
    ),
]
K = Annotated[int, msgspec.Meta(ge=2, le=20)]
MinK = Annotated[K, msgspec.Meta(description="The smallest number of clusters to try.", examples=[2])]
MaxK = Annotated[
    K, msgspec.Meta(description="The largest number of clusters to try; at least the fewest, `k_min`.", examples=[8])
]
MethodName = Annotated[
    Literal["kmeans", "gaussian", "agglomerative"],
    msgspec.Meta(
        description="`kmeans` for round groups, `gaussian` for long ones (chosen by BIC), `agglomerative` for a tree "
        "of groups (at most 5 000 rows).",
        examples=["kmeans"],
    ),
]
Scale = Annotated[
    bool,
    msgspec.Meta(description="Whether every column of numbers counts the same, whatever its unit."),
]
Seed = Annotated[
    int, msgspec.Meta(ge=0, le=2**32 - 1, description="The same seed gives the same result.", examples=[0])
]

#: A silhouette from which groups are clearly apart, and one below which there may be none.
_CLEAR: Final = 0.5
_WEAK: Final = 0.25
Fit = dict[str, Any]


def clustering(
    job: PlainJob,
    table: TableText,
    columns: Columns | None = None,
    k_min: MinK = 2,
    k_max: MaxK = 8,
    method: MethodName = "kmeans",
    scale: Scale = True,
    seed: Seed = 0,
) -> Result:
    """Group the rows of a table with scikit-learn for every k from `k_min` to `k_max`, and say which k fits best.

    Every k is a checkpoint, so a restarted job goes on at the next one, and ends in a partial result with the curve so
    far. A table that cannot be used fails with the code `bad_table`, and names row and column.
    """
    if k_max < k_min:
        raise PermanentError(
            f"The most clusters (k_max) are {k_max} and the fewest (k_min) {k_min}; k_max must not be smaller.",
            meta={"field": "k_max"},
        )
    job.progress(0, "Reading the table")
    read = read_table(table)
    choice = select_columns(read, columns)
    require_package("clustering", "sklearn", "scikit-learn")
    # These modules import NumPy and scikit-learn, which a server may lack.
    from langlauf.bundled.clustering import clusters

    compared = clusters.build_matrix(choice.used, scale=scale)
    if method == "agglomerative" and compared.count > clusters.MOST_ROWS_AGGLOMERATIVE:
        raise table_error(
            f"The method agglomerative takes at most {clusters.MOST_ROWS_AGGLOMERATIVE:,} rows, and the table has "
            f"{compared.count:,}; use kmeans or gaussian."
        )
    about = _about(read, choice, compared)
    fits: list[Fit] = []
    ks = range(k_min, min(k_max, compared.distinct - 1) + 1)
    if not ks:
        raise table_error(f"Only {compared.distinct} rows differ, too few for {k_min} clusters.")
    if ks[-1] < k_max:
        about["notes"].append(f"Only {compared.distinct} rows differ, so k ends at {ks[-1]}.")
    for k in job.chunks(ks, step="k = {}"):
        fits.append(job.checkpoint(f"k-{k}", clusters.fit, compared.values, k, method, seed))
        so_far = _result(about, fits, method)
        job.partial(so_far, summary=so_far["summary"], step=f"k = {k} measured", views=partial_views(so_far))
    best = best_of(fits, method)
    if best is None:
        raise PermanentError(
            "No k gave groups that could be measured: " + " ".join(fits[-1]["notes"] or ["all rows fell into one."]),
            code="no_clusters",
        )
    result = _result(about, fits, method) | clusters.describe(compared, choice, best, len(read.rows), seed)
    return Result(result, views=final_views(result))


def _about(read: InputTable, choice: ColumnSelection, compared: Any) -> dict[str, Any]:
    """Return what was read, for the result."""
    kept = {column.name for column in compared.columns}
    dropped = len(read.rows) - compared.count
    return {
        "table": {
            "format": read.format,
            "delimiter": read.delimiter,
            "header": read.header,
            "rows": len(read.rows),
            "rows_left_out": dropped,
            "columns": len(read.names),
            "used": [{"column": column.name, "kind": column.kind} for column in compared.columns],
            "left_out": [{"column": each.column, "reason": each.reason} for each in choice.left_out]
            + [
                {"column": column.name, "reason": "has values too close together"}
                for column in choice.used
                if column.name not in kept
            ],
            "missing": compared.gaps,
        },
        "notes": choice.notes + ([f"{dropped:,} rows without a value were left out."] if dropped else []),
    }


def _result(about: dict[str, Any], fits: list[Fit], method: str) -> dict[str, Any]:
    best = best_of(fits, method)
    curve = [{key: fit[key] for key in ("k", "found", "silhouette", "inertia", "bic")} for fit in fits]
    return {
        "summary": {
            "rows": about["table"]["rows"],
            "columns": len(about["table"]["used"]),
            "tried": f"k = {fits[0]['k']} to {fits[-1]['k']}",
            "best_k": best["k"] if best else None,
            "silhouette": best["silhouette"] if best else None,
        },
        "method": method,
        "best": {"k": best["k"], "silhouette": best["silhouette"], "reasons": reasons_for(best, fits, method)}
        if best
        else None,
        "curve": curve,
        "table": about["table"],
        "notes": about["notes"] + [note for fit in fits for note in fit["notes"]],
    }


def best_of(fits: list[Fit], method: str) -> Fit | None:
    """Return the lowest BIC of Gaussian mixtures, else the highest silhouette; of equals the smaller k."""
    usable = [fit for fit in fits if fit["silhouette"] is not None]
    if method == "gaussian":
        return min(usable, key=lambda fit: (fit["bic"], fit["k"]), default=None)
    return max(usable, key=lambda fit: (fit["silhouette"], -fit["k"]), default=None)


def reasons_for(best: Fit, fits: list[Fit], method: str) -> list[str]:
    """Return what speaks for the best k, in sentences."""
    others = [fit for fit in fits if fit["k"] != best["k"]]
    reasons = [_compared(best, others, method)]
    silhouette = best["silhouette"]
    if silhouette >= _CLEAR:
        reasons.append(f"A silhouette of {silhouette:.2f} speaks for groups that are clearly apart.")
    elif silhouette >= _WEAK:
        reasons.append(f"A silhouette of {silhouette:.2f} speaks for groups that touch each other.")
    else:
        reasons.append(f"A silhouette of {silhouette:.2f} is low: the rows may not fall into groups at all.")
    if (bend := elbow(fits)) is not None:
        agrees = "which agrees" if bend == best["k"] else "a second opinion"
        reasons.append(f"The curve of the inertia bends most at k = {bend}, {agrees}.")
    return reasons


def _compared(best: Fit, others: list[Fit], method: str) -> str:
    runner_up = best_of(others, method)
    what, key, form = ("BIC", "bic", ",.0f") if method == "gaussian" else ("silhouette", "silhouette", ".3f")
    word = "lowest" if method == "gaussian" else "highest"
    if runner_up is None:
        return f"k = {best['k']} is the only one that could be measured, with a {what} of {best[key]:{form}}."
    return (
        f"k = {best['k']} has the {word} {what}, {best[key]:{form}}; "
        f"the next best is k = {runner_up['k']} with {runner_up[key]:{form}}."
    )


def elbow(fits: list[Fit]) -> int | None:
    """Return the k whose inertia lies furthest below the line from the first to the last; None for fewer than three."""
    known = sorted((fit["k"], fit["inertia"]) for fit in fits if fit["inertia"] is not None)
    if len(known) < 3:  # noqa: PLR2004
        return None
    (first, high), (last, low) = known[0], known[-1]
    if not high > low:
        return None
    depths = {k: (high - (high - low) * (k - first) / (last - first)) - value for k, value in known[1:-1]}
    deepest = max(depths, key=lambda k: (depths[k], -k))
    return deepest if depths[deepest] > 0 else None
