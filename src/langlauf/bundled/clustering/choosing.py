"""Which k is best, and why."""

from typing import Any, Final

_CLEAR: Final = 0.5
_WEAK: Final = 0.25
Fit = dict[str, Any]


def best_of(fits: list[Fit], method: str) -> Fit | None:
    """The lowest BIC of Gaussian mixtures, else the highest silhouette; of equals the smaller k."""
    usable = [fit for fit in fits if fit["silhouette"] is not None]
    if method == "gaussian":
        return min(usable, key=lambda fit: (fit["bic"], fit["k"]), default=None)
    return max(usable, key=lambda fit: (fit["silhouette"], -fit["k"]), default=None)


def reasons_for(best: Fit, fits: list[Fit], method: str) -> list[str]:
    """What speaks for the best k, in sentences."""
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
    """The k whose inertia lies furthest below the line from the first to the last; None for fewer than three."""
    known = sorted((fit["k"], fit["inertia"]) for fit in fits if fit["inertia"] is not None)
    if len(known) < 3:  # noqa: PLR2004
        return None
    (first, high), (last, low) = known[0], known[-1]
    if not high > low:
        return None
    depths = {k: (high - (high - low) * (k - first) / (last - first)) - value for k, value in known[1:-1]}
    deepest = max(depths, key=lambda k: (depths[k], -k))
    return deepest if depths[deepest] > 0 else None
