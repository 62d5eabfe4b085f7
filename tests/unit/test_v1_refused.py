"""Files that are no store of the earlier system: refused with what is wrong and where, and nothing is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from langlauf.compat.v1_import import import_v1
from langlauf.domain.errors import StoreError
from tests.support.stores import query
from tests.support.v1_store import FULL, NOON, Document, bring, earlier_store


def broken(**parts: Any) -> Document:
    """A document with one job and parts that do not fit."""
    return earlier_store(status="running", started_at=NOON) | parts


def ended(result_id: str) -> Document:
    """A completed job with a result of this name."""
    return {"status": "completed", "result_id": result_id}


MESSAGE = {"job_id": "j1", "template_key": "t"}
RESULT = {"job_id": "j1", "result_kind": "partial", "result_seq": 1, "result_payload": {}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"jobs": {}}, "the file: .*schema_version"),
        ([], "the file: Expected `object`"),
        (earlier_store() | {"schema_version": 6}, "schema_version is 6"),
        (earlier_store() | {"jobs": []}, r"the file\.jobs"),
        (earlier_store(status="lost"), r"jobs\.j1\.status"),
        (earlier_store(job_id="other"), r"jobs\.j1\.job_id"),
        (earlier_store(org_id="a b"), r"jobs\.j1\.org_id"),
        (earlier_store(queued_at="yesterday"), r"jobs\.j1\.queued_at: 'yesterday'"),
        (earlier_store(queued_at="9999-12-31T23:59:59.999999Z"), r"jobs\.j1\.queued_at"),
        (earlier_store(queued_at="0001-01-01T00:00:00+14:00"), r"jobs\.j1\.queued_at"),
        (earlier_store(partial_count="two"), r"jobs\.j1\.partial_count"),
        (earlier_store(finished_at=NOON), r"jobs\.j1\.finished_at: the job is queued"),
        (earlier_store(request_payload_json=[1]), r"jobs\.j1\.request_payload_json"),
        (earlier_store(api_key_id="a\x00b"), r"jobs\.j1: api_key_id contains the character NUL"),
        (broken(events={"nobody": [{"event_type": "job.queued"}]}), r"events\.nobody: there is no job"),
        (broken(events={"j1": [{"event_type": "job.slept"}]}), r"events\.j1\[0\]\.event_type: 'job.slept'"),
        (broken(events={"j1": [{"event_type": "job.queued", "event_seq": 1}] * 2}), r"events\.j1\[1\]\.event_seq"),
        (broken(results={"r": RESULT | {"job_id": "x"}}), r"results\.r: there is no job x"),
        (broken(results={"r": {**RESULT, "result_kind": "final"}}), r"results\.r: its job is running"),
        (broken(results={"r": RESULT, "s": RESULT}), "two have the same result_seq"),
        (broken(results={"r": {"job_id": "j1", "result_kind": "partial", "result_seq": 1}}), r"results\.r: it has no"),
        (broken(results={"r": RESULT | {"result_id": "x"}}), r"results\.r\.result_id"),
        (broken(notifications={"n": MESSAGE | {"job_id": "x"}}), r"notifications\.n: there is no job"),
        (broken(notifications={"n": MESSAGE | {"channel": "fax"}}), r"notifications\.n\.channel"),
        (earlier_store() | {"jobs": {"a": ended("r"), "b": ended("r")}}, r"jobs\.b\.result_id: r belongs to another"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, document: Document, message: str) -> None:
    """The error names what is wrong and where, no store is made, and an existing one stays as it was."""
    with pytest.raises(StoreError, match=message):
        bring(tmp_path, document)
    assert [file.name for file in tmp_path.iterdir()] == ["store.v1.json"]
    path, _ = bring(tmp_path, FULL, name="other")
    with pytest.raises(StoreError, match=message):
        import_v1(str(path), tmp_path / "store.v1.json")
    assert query(path, "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM imports)") == [(3, 1)]


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    """Text that is cut off in the middle is no store."""
    earlier = tmp_path / "s.json"
    earlier.write_text(json.dumps(FULL)[:-100])
    with pytest.raises(StoreError, match="is not JSON"):
        import_v1(str(tmp_path / "s.db"), earlier)
    assert not (tmp_path / "s.db").exists()
