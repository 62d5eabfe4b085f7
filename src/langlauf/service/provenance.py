"""How a result came about: input, code, attempts and what it was taken from; also as W3C PROV-JSON."""

import hashlib
from typing import Any

import msgspec

from langlauf.analysis.payload import run_in_thread
from langlauf.domain.instant import Instant, to_text
from langlauf.domain.job import JobRecord
from langlauf.domain.provenance import CodeVersion, PastAttempt, TrailEntry, attempts_in, is_complete, sources_in
from langlauf.domain.read_models import ResultView
from langlauf.domain.redact import redact_json
from langlauf.store.protocol import JobReads, Store

_NAMESPACE = "urn:langlauf:"


class Provenances:
    """Tells how results came about."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, reads: JobReads, result_id: str) -> dict[str, Any] | None:
        """Return the provenance of a snapshot; None where the caller has no such result."""
        found = await reads.result(result_id, latest=False)
        view = None if found is None else await reads.job(found.job.job_id)
        if found is None or view is None:
            return None
        job = view.job
        asked, trail = await reads.payload(job.job_id), await reads.trail(job.job_id)
        resumed = 0 if job.retry_of is None else await reads.resumed(job.job_id)
        return await run_in_thread(_document, job, found, asked, trail, resumed, await self.code(job))

    async def code(self, job: JobRecord) -> CodeVersion | None:
        """Return the code that ran a job, where that is known."""
        return None if job.code is None else await self._store.workers.code(job.code)


def citation(job: JobRecord, code: CodeVersion | None, result_id: str) -> str:
    """Return a line by which a result can be cited."""
    version = "" if code is None else f", version {code.version}"
    when = "" if job.finished_at is None else f", {to_text(job.finished_at)[:10]}"
    return f"{job.analysis}{version}{when}, Langlauf result {result_id}, input sha256 {job.request_payload_hash}"


def _document(
    job: JobRecord,
    found: ResultView,
    asked: str | None,
    trail: list[TrailEntry],
    resumed: int,
    code: CodeVersion | None,
) -> dict[str, Any]:
    snapshot, payload = found.requested, found.delivered.payload
    return {
        "result_id": snapshot.result_id,
        "result_kind": snapshot.result_kind,
        "result_seq": snapshot.result_seq,
        "created_at": to_text(snapshot.created_at),
        "result_sha256": None if payload is None else hashlib.sha256(payload.encode()).hexdigest(),
        "job_id": job.job_id,
        "org_id": job.org_id,
        "requested_by_user_id": job.requested_by_user_id,
        "api_key_id": job.api_key_id,
        "analysis": job.analysis,
        "code": None if code is None else msgspec.to_builtins(code),
        "input": None if asked is None else redact_json(msgspec.json.decode(asked)),
        "input_hash": job.request_payload_hash,
        "sources": [msgspec.to_builtins(source) for source in sources_in(trail)],
        "sources_complete": is_complete(trail),
        "queued_at": to_text(job.queued_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "attempt": job.attempt,
        "attempts": [_attempt_facts(attempt) for attempt in _attempts(job, trail, code)],
        "retry_count": job.retry_count,
        "retry_of": job.retry_of,
        "resumed_from": {"job_id": job.retry_of, "chunks": resumed} if resumed else None,
        "reused_from": job.reused_from,
        "based_on": job.based_on,
        "schedule": job.schedule,
        "planned_at": _time(job.planned_at),
        "citation": citation(job, code, snapshot.result_id),
    }


def _time(instant: Instant | None) -> str | None:
    return None if instant is None else to_text(instant)


def _attempts(job: JobRecord, trail: list[TrailEntry], code: CodeVersion | None) -> list[PastAttempt]:
    """Return every attempt that made the result: of a reused one those of the run that it is taken from."""
    found = attempts_in(trail)
    if job.attempt == 0 or job.reused_from is not None or any(one.attempt == job.attempt for one in found):
        return found
    last = PastAttempt(
        attempt=job.attempt,
        started_at=job.attempt_started_at,
        ended_at=job.finished_at,
        outcome=str(job.status) if job.terminal else None,
        why=job.error_code,
        host=None if code is None else code.host,
        version=None if code is None else code.version,
    )
    return [*found, last]


def _attempt_facts(one: PastAttempt) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "started_at": _time(one.started_at), "ended_at": _time(one.ended_at)}


def prov_json(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a provenance as a document of W3C PROV-JSON."""
    result, job = f"ll:result/{facts['result_id']}", f"ll:job/{facts['job_id']}"
    given, code = f"ll:input/{facts['input_hash']}", facts["code"]
    entity: dict[str, Any] = {
        result: {"prov:type": "ll:Result", "ll:sha256": facts["result_sha256"], "ll:kind": facts["result_kind"]},
        given: {"prov:type": "ll:Input", "ll:sha256": facts["input_hash"]},
    }
    used: dict[str, Any] = {"_:used1": {"prov:activity": job, "prov:entity": given}}
    agent: dict[str, Any] = {}
    if code is not None:
        entity["ll:code"] = {
            "prov:type": "ll:Code",
            "ll:analysis": code["analysis"],
            "ll:version": code["version"],
            "ll:sha256": code["code_hash"],
            "ll:package": code["package"] or "",
        }
        used["_:used2"] = {"prov:activity": job, "prov:entity": "ll:code"}
        agent["ll:worker"] = {
            "prov:type": "prov:SoftwareAgent",
            "ll:langlauf": code["langlauf"],
            "ll:python": code["python"],
            "ll:host": code["host"],
        }
    for number, source in enumerate(facts["sources"], start=1):
        entity[f"ll:source{number}"] = {
            "prov:type": "ll:Source",
            "prov:label": source["name"],
            **{f"ll:{name}": source[name] for name in ("version", "hash", "url") if source[name] is not None},
        }
        used[f"_:source{number}"] = {"prov:activity": job, "prov:entity": f"ll:source{number}"}
    if (who := facts["requested_by_user_id"] or facts["api_key_id"]) is not None:
        agent["ll:requester"] = {"prov:type": "prov:Agent", "ll:id": who}
    activity = {"prov:startTime": facts["started_at"] or facts["queued_at"], "ll:analysis": facts["analysis"]}
    if facts["finished_at"]:
        activity["prov:endTime"] = facts["finished_at"]
    for name in ("schedule", "planned_at"):
        if facts[name]:
            activity[f"ll:{name}"] = facts[name]
    if facts["resumed_from"]:
        activity["ll:resumedChunks"] = facts["resumed_from"]["chunks"]
    document: dict[str, Any] = {
        "prefix": {"ll": _NAMESPACE, "prov": "http://www.w3.org/ns/prov#"},
        "entity": entity,
        "activity": {job: activity},
        "agent": agent,
        "wasGeneratedBy": {"_:made": {"prov:entity": result, "prov:activity": job, "prov:time": facts["created_at"]}},
        "used": used,
        "wasAssociatedWith": {
            f"_:by{number}": {"prov:activity": job, "prov:agent": name} for number, name in enumerate(agent, start=1)
        },
    }
    earlier = {f"_:{kind}": f"ll:job/{facts[kind]}" for kind in ("reused_from", "retry_of", "based_on") if facts[kind]}
    document["activity"] |= {name: {} for name in earlier.values()}
    owner = earlier.get("_:reused_from", job)
    for attempt in facts["attempts"]:
        name = earlier[f"_:attempt{attempt['attempt']}"] = f"{owner}/attempt/{attempt['attempt']}"
        document["activity"][name] = _attempt_activity(attempt)
    document["wasInformedBy"] = {
        relation: {"prov:informed": job, "prov:informant": name} for relation, name in earlier.items()
    }
    return document


def _attempt_activity(attempt: dict[str, Any]) -> dict[str, Any]:
    names = {
        "started_at": "prov:startTime",
        "ended_at": "prov:endTime",
        "outcome": "ll:outcome",
        "why": "ll:why",
        "host": "ll:host",
        "version": "ll:version",
    }
    shown = {name: attempt[field] for field, name in names.items() if attempt[field] is not None}
    return {"prov:type": "ll:Attempt", **shown}
