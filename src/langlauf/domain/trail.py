"""The trail of a job: what its record keeps about how its result came about, beside its fields.

Sources that its function declared, and the attempts before the last one. They are rows among the job's chunks, under
keys that no analysis may use: so they are written under the lease, copied, exported and removed like chunks, and kept
as long as the job, while its log is not.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.redact import clean_text

#: Keys of a trail begin with this.
TRAIL = "langlauf:"
SOURCES = f"{TRAIL}source"
_SOURCE = f"{SOURCES}:"
_ATTEMPT = f"{TRAIL}attempt:"
#: Stored once a job has declared more sources than are kept.
SOURCES_FULL = f"{TRAIL}sources_full"
MOST_SOURCES = 100
LONGEST_SOURCE_TEXT = 200
LONGEST_SOURCE_URL = 2_000


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What an analysis read, as its function declares it."""

    name: str
    version: str | None = None
    hash: str | None = None
    url: str | None = None

    @property
    def key(self) -> str:
        """The key of its row, made from all of it: declaring the same again changes nothing."""
        return _SOURCE + hashlib.sha256(self.payload.encode()).hexdigest()[:32]

    @property
    def payload(self) -> str:
        """JSON text."""
        return msgspec.json.encode(self).decode()


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over, with the host that ran it and the version of its code where they are known."""

    attempt: int
    started_at: Instant | None
    ended_at: Instant | None
    #: retried, lost or released; completed for the attempt whose result was reused
    outcome: str | None
    #: an error code
    why: str | None
    host: str | None
    version: str | None


class TrailEntry(NamedTuple):
    """A row of a trail."""

    key: str
    payload: str
    created_at: Instant


def declared_source(name: str, version: Any, hash_: Any, url: Any) -> Source:
    """Return a source of clean texts. A name or version is cut; part of a hash or an address would be another one."""
    if not str(name or "").strip():
        raise ValueError("job.source needs a name: job.source('Swiss gazetteer', version='2026-03')")
    return Source(
        name=_line(str(name), LONGEST_SOURCE_TEXT),
        version=None if version is None else _line(str(version), LONGEST_SOURCE_TEXT),
        hash=None if hash_ is None else _line(_bounded("hash", str(hash_), LONGEST_SOURCE_TEXT), LONGEST_SOURCE_TEXT),
        url=None if url is None else _line(_bounded("url", str(url), LONGEST_SOURCE_URL), LONGEST_SOURCE_URL),
    )


def _bounded(field: str, text: str, longest: int) -> str:
    if len(text) > longest:
        raise ValueError(f"job.source({field}=…) has at most {longest:,} characters, not {len(text):,}")
    return text


def _line(text: str, longest: int) -> str:
    return clean_text(" ".join(text.split()), longest)


def sources_in(trail: Sequence[TrailEntry]) -> list[Source]:
    """Return the sources of a trail, in the order in which they were declared."""
    found = [entry for entry in trail if entry.key.startswith(_SOURCE)]
    return [msgspec.json.decode(entry.payload, type=Source) for entry in sorted(found, key=_by_time)]


def is_complete(trail: Sequence[TrailEntry]) -> bool:
    """Whether a job has declared no more sources than are kept."""
    return all(entry.key != SOURCES_FULL for entry in trail)


def attempts_in(trail: Sequence[TrailEntry]) -> list[PastAttempt]:
    """Return the attempts of a trail by their numbers."""
    found = [entry.payload for entry in trail if entry.key.startswith(_ATTEMPT)]
    return sorted((msgspec.json.decode(text, type=PastAttempt) for text in found), key=lambda one: one.attempt)


def _by_time(entry: TrailEntry) -> Instant:
    return entry.created_at
