"""Whole numbers of 64 bits, such as the keys of a database, come out as they went in."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from langlauf import Job, Langlauf
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores


@pytest.fixture(scope="module")
def keys(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def look_up(job: Job, key: int) -> dict[str, Any]:
        """Returns the key, also as a partial result."""
        await job.partial({"key": key}, summary={"key": key})
        return {"key": key, "above": key + 1}

    folder = tmp_path_factory.mktemp("integers")
    with store_under_test(store_kind, folder) as bed, live(folder, app, LANGLAUF_STORE=bed.place) as running:
        yield running


@pytest.mark.parametrize("key", [2**53 + 1, LARGEST_INTEGER - 1, SMALLEST_INTEGER])
def test_a_key_of_64_bits_is_exact_everywhere(keys: Live, key: int) -> None:
    """In the input, the answer, the snapshots, the stored result and on its page."""
    answer = keys.http.post("/analyze", content=b'{"key": %d}' % key, headers={"Content-Type": "application/json"})
    body = msgspec.json.decode(answer.content)
    assert (answer.status_code, body["result"]) == (200, {"key": key, "above": key + 1})
    snapshots = msgspec.json.decode(keys.http.get(f"/analyze/jobs/{body['job_id']}/results").content)["results"]
    assert snapshots[0]["summary_json"] == {"key": key}
    assert str(key) in keys.http.get(f"/results/{body['result_id']}").text
    assert str(key) in keys.http.get(f"/jobs/{body['job_id']}").text


def test_a_larger_one_is_refused_with_its_place(keys: Live) -> None:
    answer = keys.http.post("/analyze", json={"key": LARGEST_INTEGER + 1})
    assert (answer.status_code, answer.json()["field"]) == (400, "key")


def test_a_larger_one_in_a_result_ends_the_job(keys: Live) -> None:
    answer = keys.http.post("/analyze", json={"key": LARGEST_INTEGER})
    assert (answer.status_code, answer.json()["error"]) == (500, "result_unstorable")
