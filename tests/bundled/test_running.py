"""The bundled analyses in real processes on a real store: what comes out, what a crash costs, and how they fail."""

from pathlib import Path

from langlauf import Langlauf
from langlauf.auth.caller import internal_caller
from langlauf.bootstrap import Runtime
from langlauf.bundled import app as bundled
from langlauf.domain.read_models import JobView
from langlauf.domain.result import views_from
from langlauf.domain.state import Status
from tests.bundled import counted_app as counted
from tests.bundled.clustering.test_analysis import blobs
from tests.bundled.ontology.documents import AFTER, BEFORE
from tests.support.running_app import ORG, done, result, run

_PATIENCE = {"LANGLAUF_LEASE_SECONDS": "15"}  # scikit-learn is loaded by the first job


async def _views(runtime: Runtime, view: JobView) -> list[list[str]]:
    """The titles of the views of every snapshot."""
    reads = runtime.services.reads.of(internal_caller(ORG))
    stored = await reads.results(view.job.job_id)
    found = [await reads.result(one.result_id, latest=False) for one in stored]
    return [[shown.title for shown in views_from(one.delivered.views)] for one in found if one is not None]


def test_clustering_as_a_job(tmp_path: Path) -> None:
    """Parameters have defaults, every k leaves a snapshot with its curve, and the end has everything."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "clustering", seconds=120, table=blobs(3, 60), k_max=4)
        found = await result(runtime, view)
        assert (found["best"]["k"], len(found["labels"]), view.job.partial_count) == (3, 60, 3)
        assert view.job.step == "k = 4 measured"
        partial, *_, final = await _views(runtime, view)
        assert partial == ["Silhouette", "Measures"]
        assert (final[0], final[-1]) == ("Why this k", "Labels")

    run(bundled, tmp_path, body, **_PATIENCE)


def test_a_bad_table_fails_at_once(tmp_path: Path) -> None:
    """Without a retry, with a hint to look at the input, and the place."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = (await done(app, runtime, "clustering", seconds=120, table="a,b\n1,2\n3\n")).job
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "bad_table", 1)
        assert job.error_message == "Row 2 (line 3) has 1 cell, the header has 2."
        assert (job.retryable, job.retry_hint) == (False, "check_input_and_retry")
        assert job.error_meta is not None
        assert '"row":2' in job.error_meta

    run(bundled, tmp_path, body, **_PATIENCE)


def test_the_next_version_is_compared_with_the_last(tmp_path: Path) -> None:
    """The first says that it is the first; the second finds it; a job that failed in between is passed over."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        first = await result(runtime, await done(app, runtime, "ontology", text=BEFORE))
        assert first["first_run"]
        failed = await done(app, runtime, "ontology", text="ontology: demo\n[Term]\nid D:1\n")
        assert failed.job.error_message == 'Line 3 of `text` is no OBO: "id D:1" (expected Comment).'
        view = await done(app, runtime, "ontology", text=AFTER)
        second = await result(runtime, view)
        assert (second["compared_with"]["version"], second["summary"]["changes"]) == ("2026-01", 9)
        named = await result(runtime, await done(app, runtime, "ontology", text=AFTER, ontology="demo"))
        assert (named["compared_with"]["version"], named["summary"]["changes"]) == ("2026-02", 0)
        other = await result(runtime, await done(app, runtime, "ontology", text=AFTER, ontology="other"))
        assert other["first_run"]
        partial, *_, final = await _views(runtime, view)
        assert (partial, len(final)) == (["Summary", "By namespace"], 12)

    run(bundled, tmp_path, body, **_PATIENCE)


def test_another_org_is_never_compared_with(tmp_path: Path) -> None:
    """What one org sent is no version before for another."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        job = await app.submit("ontology", org="other", text=BEFORE)
        await runtime.services.followers.until(internal_caller("other"), job.job_id, 20, lambda view: view.job.terminal)
        assert (await result(runtime, await done(app, runtime, "ontology", text=AFTER)))["first_run"]

    run(bundled, tmp_path, body, **_PATIENCE)


def test_a_killed_clustering_goes_on_at_the_next_k(tmp_path: Path) -> None:
    """Each k is computed once, although the process died between two of them."""
    file = tmp_path / "computed"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(
            app, runtime, "counted_clustering", seconds=120, table=blobs(3, 60), file=str(file), dies_at=4
        )
        found = await result(runtime, view)
        assert (view.job.attempt, found["best"]["k"], len(found["curve"])) == (2, 3, 5)
        assert file.read_text().split() == ["2", "3", "4", "5", "6"]

    run(counted.app, tmp_path, body, **_PATIENCE)


def test_a_killed_comparison_goes_on_at_the_next_namespace(tmp_path: Path) -> None:
    """Each document is read once, each namespace is compared once, and nothing of the first attempt is lost."""
    file = tmp_path / "computed"

    async def body(app: Langlauf, runtime: Runtime) -> None:
        values = {"text": AFTER, "previous": BEFORE, "file": str(file), "dies_at": "thing"}
        view = await done(app, runtime, "counted_ontology", seconds=120, **values)
        found = await result(runtime, view)
        assert (view.job.attempt, found["summary"]["changes"]) == (2, 9)
        assert file.read_text().splitlines() == ["read text", "read previous", "process", "thing"]

    run(counted.app, tmp_path, body, **_PATIENCE)


def test_address_shows_its_map(tmp_path: Path) -> None:
    """The views of a coroutine are stored like those of a plain function."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        view = await done(app, runtime, "address", seconds=120, query="Bern")
        shown = await _views(runtime, view)
        assert shown[-1] == ["Around Bern", "Rank by size", "Nearest places"]
        assert shown[0] == []

    run(bundled, tmp_path, body, LANGLAUF_ADDRESS_TABLE="15000", **_PATIENCE)
