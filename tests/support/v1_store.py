"""Stores of the earlier system, for tests."""

import json
from pathlib import Path
from typing import Any

from langlauf.compat.v1_import import ImportReport, import_v1
from tests.support.stores import SetClock

Document = dict[str, Any]
NOON = "2026-03-01T12:00:00Z"
#: A store as the earlier system left it, with times of every form, an alias and a secret.
FULL: Document = json.loads(Path(__file__).with_name("earlier_store.json").read_text())
#: A store with every field that the code of the earlier system writes, and a job in every state.
WRITTEN_BY_ITS_CODE: Document = json.loads(Path(__file__).with_name("earlier_code_store.json").read_text())


def bring(folder: Path, document: Document, name: str = "store.v1") -> tuple[Path, ImportReport]:
    """Imports a document into a new store."""
    earlier = folder / f"{name}.json"
    earlier.write_text(json.dumps(document, indent=2))
    path = folder / f"{name}.db"
    return path, import_v1(str(path), earlier, default_analysis="address", clock=SetClock())


def earlier_store(**job: Any) -> Document:
    """A document of the earlier system with one job, as little as it may have."""
    return {
        "schema_version": 1,
        "jobs": {"j1": {"status": "queued", **job}},
        "events": {},
        "results": {},
        "notifications": {},
    }
