"""The analysis as a job: groups that are there are found, the same each time, one k after the other."""

import random
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langlauf.analysis.payload import encode, encode_views
from langlauf.bundled.clustering import clustering
from langlauf.bundled.clustering.analysis import best_of, elbow
from langlauf.domain.errors import PermanentError
from langlauf.domain.result import ChartView, FileView, TableView
from tests.bundled.conftest import RecordingJob, shown_or_code

_LARGEST = 64 * 1024 * 1024


def blobs(groups: int, rows: int, seed: int = 1) -> str:
    """Rows around so many middles, far apart, with a name each."""
    draw = random.Random(seed)
    lines = ["name,x,y,colour"]
    for row in range(rows):
        group = row % groups
        x, y = 50 * group + draw.gauss(0, 1), 1000 * (group % 2) + draw.gauss(0, 5)
        lines.append(f"row {row},{x:.3f},{y:.3f},{'red' if group % 2 else 'blue'}")
    return "\n".join(lines)


def run(table: str, /, job: RecordingJob | None = None, **values: Any) -> dict[str, Any]:
    """The payload of a whole run."""
    result = clustering(job or RecordingJob(), table, **values).payload
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("method", ["kmeans", "gaussian", "agglomerative"])
def test_groups_that_are_there_are_found(method: Any) -> None:
    """Four clear groups are four clusters by every method, with their centres in the units of the table."""
    result = run(blobs(4, 120), method=method)
    assert result["best"]["k"] == result["summary"]["best_k"] == 4
    assert [cluster["size"] for cluster in result["clusters"]] == [30] * 4
    assert sorted(round(cluster["center"]["x"], -1) for cluster in result["clusters"]) == [0, 50, 100, 150]
    assert all(len(cluster["center"]["colour"]) == 1 for cluster in result["clusters"])
    labels = result["labels"]
    assert [labels[row] for row in range(4)] * 30 == labels, "every fourth row belongs together"
    assert result["table"]["left_out"] == [{"column": "name", "reason": "holds 120 different texts"}]
    assert (result["curve"][0]["bic"] is not None) == (method == "gaussian")


@pytest.mark.parametrize("method", ["kmeans", "gaussian"])
def test_the_same_seed_gives_the_same_result(method: Any) -> None:
    """To the last byte; another seed may start elsewhere, but says so in nothing else."""
    first, again = (run(blobs(3, 300), method=method, seed=7) for _ in range(2))
    assert encode(first, _LARGEST) == encode(again, _LARGEST)


def test_every_k_is_a_checkpoint_and_a_snapshot(job: RecordingJob) -> None:
    """The curve grows by one k at a time, and its chart with it."""
    run(blobs(3, 60), job, k_min=2, k_max=5)
    assert job.ran == ["k-2", "k-3", "k-4", "k-5"]
    assert [[point["k"] for point in partial["curve"]] for partial in job.partials] == [
        [2], [2, 3], [2, 3, 4], [2, 3, 4, 5],
    ]  # fmt: skip
    assert [summary["best_k"] for summary in job.summaries] == [2, 3, 3, 3]
    assert [[view.title for view in views] for views in job.views] == [["Silhouette", "Measures"]] * 4


def test_a_crashed_job_goes_on_at_the_next_k(job: RecordingJob) -> None:
    """What was computed is not computed again, and the result is that of a job that never crashed."""
    table = blobs(3, 60)
    crashed = RecordingJob(kept=job.kept, crashes_after=3)
    with pytest.raises(ConnectionResetError):
        run(table, crashed, k_max=6)
    assert crashed.ran == ["k-2", "k-3", "k-4"]
    assert run(table, job, k_max=6) == run(table, k_max=6)
    assert job.ran == ["k-5", "k-6"]


def test_gaps_are_filled_and_told() -> None:
    """By the median, or as a category of their own; rows without any value have no label."""
    lines = blobs(2, 40).splitlines()
    lines[5], lines[9] = "row 4,,0,", "row 8,,,"
    result = run("\n".join(lines), k_max=3, columns=["x", "y", "colour"])
    assert [(gap["column"], gap["cells"]) for gap in result["table"]["missing"]] == [("x", 1), ("colour", 1)]
    assert result["table"]["missing"][0]["filled_with"].startswith("the median, ")
    assert [row for row, label in enumerate(result["labels"], start=1) if label is None] == [9]
    assert result["table"]["rows_left_out"] == 1
    assert "1 rows without a value were left out." in result["notes"]


def test_outliers_are_named() -> None:
    """A row far from its group is on the list, with its name."""
    table = blobs(2, 60) + "\nstray,25,400,blue"
    furthest = run(table, k_max=3)["outliers"]["furthest"][0]
    assert (furthest["row"], furthest["name"]) == (61, "stray")


def test_warnings_become_notes() -> None:
    """What scikit-learn warns of stands in the result, once, with its k."""
    rows = ["a,b", *(["1,1"] * 5), *(["2,2"] * 5), *(["9,1"] * 5), "1.0000000001,1", "2.0000000000001,2"]
    result = run("\n".join(rows), k_max=4, scale=False)
    assert [(point["k"], point["found"]) for point in result["curve"]] == [(2, 2), (3, 3), (4, 3)]
    [note] = result["notes"]
    assert note.startswith("k = 4: Number of distinct clusters (3) found smaller than n_clusters (4).")


def test_k_ends_where_rows_no_longer_differ() -> None:
    """More clusters than different rows cannot be; the result says that fewer were tried."""
    result = run("a,b\n" + "1,1\n2,2\n3,9\n4,4\n" * 3, k_max=8)
    assert [point["k"] for point in result["curve"]] == [2, 3]
    assert "Only 4 rows differ, so k ends at 3." in result["notes"]


@pytest.mark.parametrize(
    ("table", "values", "said", "code"),
    [
        (
            blobs(2, 20),
            {"k_min": 5, "k_max": 3},
            "most clusters (k_max) are 3 and the fewest (k_min) 5",
            "validation_error",
        ),
        ("a,b\n1,2\n3,4\n", {}, "at least 4 rows, 3 of them different", "bad_table"),
        ("a,b\n" + "1,1\n2,2\n" * 9, {}, "2 of them different", "bad_table"),
        ("a,b\n1,1\n2,2\n3,3\n4,4\n", {"k_min": 6}, "Only 4 rows differ, too few for 6 clusters", "bad_table"),
        (blobs(3, 5_001), {"method": "agglomerative"}, "at most 5,000 rows", "bad_table"),
    ],
)
def test_what_cannot_be_grouped_is_said(table: str, values: dict[str, Any], said: str, code: str) -> None:
    """Before anything is computed, with the way out."""
    with pytest.raises(PermanentError) as caught:
        run(table, **values)
    assert said in caught.value.message
    assert (caught.value.code, caught.value.hint) == (code, "check_input_and_retry")


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job fails for good and says what to install."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(PermanentError, match=r"pip install 'langlauf\[analyses\]'") as caught:
        run(blobs(2, 20))
    assert caught.value.code == "missing_dependency"


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 3), st.sampled_from("ab")), min_size=4, max_size=25),
    st.sampled_from(["kmeans", "gaussian", "agglomerative"]),
    st.booleans(),
)
def test_any_table_has_a_result_or_a_reason(rows: list[tuple[float, int, str]], method: Any, scale: bool) -> None:
    """Whatever the rows: a result that can be stored and adds up, or an error that is the table's."""
    table = msgspec.json.encode(rows).decode()
    quoted = shown_or_code(lambda: clustering(RecordingJob(), table, method=method, scale=scale, k_max=4))
    if isinstance(quoted, str):
        assert quoted in {"bad_table", "no_clusters"}
        return
    assert encode(quoted.payload, _LARGEST)
    assert encode_views(quoted.views)
    result = quoted.payload
    assert sum(cluster["size"] for cluster in result["clusters"]) == len(rows)
    assert sorted(set(result["labels"])) == [cluster["cluster"] for cluster in result["clusters"]]
    sizes = [cluster["size"] for cluster in result["clusters"]]
    assert sizes == sorted(sizes, reverse=True)


def test_views_show_what_the_result_holds() -> None:
    """The chart marks the best k, the scatter has every row, tables name fields that are there, the file has labels."""
    quoted = clustering(RecordingJob(), blobs(3, 60) + "\nstray,25,400,blue", k_max=4)
    by_title = {view.title: view for view in quoted.views}
    assert list(by_title) == [
        "Why this k", "Scatter", "Clusters", "Silhouette", "Measures", "Outliers", "Labels",
    ]  # fmt: skip
    curve, scatter = by_title["Silhouette"], by_title["Scatter"]
    assert isinstance(curve, ChartView)
    assert isinstance(scatter, ChartView)
    best = [point["k"] for point in curve.spec["data"]["values"] if point["best"]]
    assert best == [quoted.payload["best"]["k"]]
    assert len(scatter.spec["data"]["values"]) == 61
    assert scatter.summary.startswith("61 rows in ")
    clusters = by_title["Clusters"]
    assert isinstance(clusters, TableView)
    assert clusters.rows is not None
    assert all(column.name in row for column in clusters.columns for row in clusters.rows)
    labels = by_title["Labels"]
    assert isinstance(labels, FileView)
    lines = labels.data.decode().splitlines()
    assert (lines[0], len(lines)) == ("row,cluster", 62)


def test_a_large_table_is_shown_in_part() -> None:
    """The silhouette and the picture take a sample; every row has its label."""
    quoted = clustering(RecordingJob(), blobs(3, 6_000), k_min=3, k_max=3)
    result = quoted.payload
    assert (len(result["labels"]), len(result["scatter"]["points"]), result["scatter"]["of"]) == (6_000, 1_500, 6_000)
    assert result["best"]["silhouette"] > 0.8
    assert any(
        isinstance(view, ChartView) and view.summary.startswith("A sample of 1,500 of 6,000") for view in quoted.views
    )


def test_the_best_k_is_chosen_by_its_measure() -> None:
    """The highest silhouette, or the lowest BIC; of equals the smaller k; what was not measured does not count."""
    fits: list[dict[str, Any]] = [
        {"k": 2, "silhouette": 0.5, "bic": 90.0, "inertia": 100.0},
        {"k": 3, "silhouette": 0.5, "bic": 80.0, "inertia": 40.0},
        {"k": 4, "silhouette": None, "bic": 10.0, "inertia": 35.0},
        {"k": 5, "silhouette": 0.1, "bic": 80.0, "inertia": 30.0},
    ]
    best = [best_of(fits, method) for method in ("kmeans", "gaussian")]
    assert [fit and fit["k"] for fit in best] == [2, 3]
    assert best_of(fits[2:3], "kmeans") is None
    assert (elbow(fits), elbow(fits[:2])) == (3, None)
