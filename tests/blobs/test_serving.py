"""Large results through a real server: written, shown, downloaded, expired, and an error where their blob is lost."""

import shutil
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from langlauf.client import Client
from tests.blobs.conftest import PLACES
from tests.blobs.object_store import CREDENTIALS, ObjectStore
from tests.http.test_errors import assert_problem
from tests.support.server import ROOT, SAMPLE_APP, ServerProcess, command, environment, serving

LARGE = "Zürich " * 400_000
LOOK_SECONDS = 60


@pytest.fixture(params=PLACES)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a server whose large results lie elsewhere."""
    if request.param == "files":
        return {"LANGLAUF_BLOBS": str(tmp_path / "blobs")}
    objects: ObjectStore = request.getfixturevalue("objects")
    bucket = f"serving-{tmp_path.name}".lower().replace("_", "-")[:60].rstrip("-")
    objects.make(bucket)
    return {"LANGLAUF_BLOBS": objects.url(bucket), **CREDENTIALS}


def _completed(server: ServerProcess) -> str:
    """Runs an analysis to its end and returns its result's id."""
    with Client(server.url) as client:
        job = client.submit("echo", value=LARGE)
        state = job.wait(timeout=60)
        assert state.status == "completed", state
        assert state.result_id is not None
        return state.result_id


def _files(folder: Path) -> list[Path]:
    """The blobs of a place in files, without the mark of their owner."""
    return [path for path in (folder / "blobs").rglob("*") if path.is_file() and path.suffix != ".mark"]


def test_a_large_result_survives_the_server(tmp_path: Path, blobs: dict[str, str]) -> None:
    """It is the same afterwards, through the API, the client and the page, and the store itself stays small."""
    settings = {**blobs, "LANGLAUF_MAX_BODY": str(8 * 1_048_576)}
    store = tmp_path / "store.db"
    with serving(store, settings=settings) as server:
        result_id = _completed(server)
    with serving(store, settings=settings) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        found = http.get(f"/analyze/results/{result_id}").json()
        assert found["result"]["value"] == LARGE
        job = http.get(f"/analyze/jobs/{found['job_id']}").json()["job"]
        assert (job["status"], job["result"]) == ("completed", None)
        assert http.get(f"/results/{result_id}").status_code == 200
        tag = http.get(f"/analyze/results/{result_id}").headers["etag"]
        assert http.get(f"/analyze/results/{result_id}", headers={"If-None-Match": tag}).status_code == 304
    verify = subprocess.run(
        command("verify", "--store", str(store)), cwd=ROOT, env=environment(**blobs), capture_output=True, check=False
    )
    assert (verify.returncode, verify.stdout) == (0, b"")


def test_a_lost_blob_is_503_and_tells_nothing(tmp_path: Path) -> None:
    """To the caller; the log names the job."""
    settings = {"LANGLAUF_BLOBS": str(tmp_path / "blobs"), "LANGLAUF_LIMITS": "inline_result=100"}
    settings["LANGLAUF_MAX_BODY"] = str(8 * 1_048_576)
    with serving(tmp_path / "store.db", settings=settings) as server:
        result_id = _completed(server)
        [file] = _files(tmp_path)
        file.write_bytes(b"{}")
        with httpx2.Client(base_url=server.url, timeout=60) as http:
            response = http.get(f"/analyze/results/{result_id}")
            assert_problem(response, 503, "unavailable")
            assert not any(word in response.text for word in (str(tmp_path), "sha256", file.name))
            assert http.get(f"/results/{result_id}").status_code == 503
            assert http.get("/ready").status_code == 200
        job_id = file.parent.name
    assert any("payload_unavailable" in line and job_id in line for line in server.log)


def test_a_result_waits_for_a_place_that_is_away(tmp_path: Path) -> None:
    """The attempt goes on trying, others are not held up, and nothing is computed again."""
    folder = tmp_path / "blobs"
    settings = {"LANGLAUF_BLOBS": str(folder), "LANGLAUF_MAX_BODY": str(8 * 1_048_576)}
    with serving(tmp_path / "store.db", settings=settings) as server, Client(server.url) as client:
        shutil.rmtree(folder)
        folder.write_text("in the way")
        waiting = client.submit("echo", value=LARGE)
        deadline = time.monotonic() + LOOK_SECONDS
        while not any("blobs_unavailable" in line for line in server.log):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.submit("echo", value="small").wait(timeout=LOOK_SECONDS).status == "completed"
        folder.unlink()
        state = waiting.wait(timeout=LOOK_SECONDS)
        assert (state.status, state.attempt) == ("completed", 1)
        assert waiting.result()["value"] == LARGE


def test_a_server_removes_what_has_expired(tmp_path: Path, blobs: dict[str, str]) -> None:
    """410 for the result, and nothing of it is left, within one interval."""
    settings = {
        **blobs,
        "LANGLAUF_LIMITS": "retention_every=0.2; blob_garbage_age=0",
        "ASYNC_JOB_RESULTS_RETENTION_SECONDS": "0.5",
    }
    settings |= {"LANGLAUF_MAX_BODY": str(8 * 1_048_576)}
    with serving(tmp_path / "store.db", settings=settings) as server:
        result_id = _completed(server)
        deadline = time.monotonic() + LOOK_SECONDS
        with httpx2.Client(base_url=server.url, timeout=60) as http:
            while (response := http.get(f"/analyze/results/{result_id}")).status_code != 410:
                assert response.status_code == 200, response.text
                assert time.monotonic() < deadline
                time.sleep(0.05)
        while not any("blobs_removed" in line for line in server.log):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not _files(tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [("ftp://x/y", "not supported"), ("s3://bucket?key=1", "AWS_"), ("file/in/the/way", "LANGLAUF_BLOBS")],
)
def test_a_bad_place_stops_the_server(tmp_path: Path, value: str, message: str) -> None:
    """Exit code 1, and the last line says why."""
    (tmp_path / "file").write_text("no folder")
    place = value if "://" in value else str(tmp_path / value)
    ended = subprocess.run(
        command("serve", SAMPLE_APP, "--port", "0", "--store", str(tmp_path / "s.db"), "--blobs", place),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 1
    assert message in ended.stderr.splitlines()[-1]
