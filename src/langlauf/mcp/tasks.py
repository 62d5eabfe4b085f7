"""Tasks: a job as the extension shows it, and `subscriptions/listen`, a stream of changed tasks and snapshots."""

import asyncio
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import ApiContext, CachedStatus, StatusCache, StatusCacheKey
from langlauf.api.sse import HEARTBEAT, EventStreamResponse, StreamSender
from langlauf.auth.caller import Caller
from langlauf.domain.eta import LONGEST_POLL
from langlauf.domain.event import EventType
from langlauf.domain.instant import after, seconds_between, to_text
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView, fingerprint_of
from langlauf.domain.result import RetentionPolicy
from langlauf.domain.state import Status
from langlauf.mcp.protocol import (
    JOB_KEY,
    SNAPSHOT_KEY,
    SUBSCRIPTION_KEY,
    RpcError,
    RpcRequest,
    as_event,
    invalid_params,
    notification_message,
    result_message,
    tasks_required,
)
from langlauf.mcp.resources import ResourceAddress, parse_uri, snapshot_fields
from langlauf.mcp.tool_result import ToolResults, job_fields, result_uri, status_sentence
from langlauf.service.follow import watching
from langlauf.service.follower import Topic, Watcher

_STATUSES = {Status.COMPLETED: "completed", Status.FAILED: "completed", Status.CANCELED: "cancelled"}
_CANCEL_REASON = "canceled by an agent"
_MILLISECONDS = 1_000


class Tasks:
    """Reads and cancels tasks."""

    def __init__(self, context: ApiContext, results: ToolResults) -> None:
        self._context = context
        self._reads = context.services.reads
        self._results = results
        self._kept = StatusCache()

    async def get(self, request: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Return a task, with its result or error once it has ended."""
        return await self.detailed(await self._view(rpc, caller), caller, self._results.root(request))

    async def update(self, _: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Acknowledge answers to a task. No task asks anything, so that every key is unknown, and ignored."""
        await self._view(rpc, caller)
        rpc.members("inputResponses")
        return {}

    async def cancel(self, _: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Ask a task to stop; one that has ended, or cannot be canceled, stays as it is."""
        view = await self._view(rpc, caller)
        await self._context.services.control.cancel(caller, view.job.job_id, _CANCEL_REASON)
        return {}

    async def _view(self, rpc: RpcRequest, caller: Caller) -> JobView:
        if not rpc.tasks:
            raise tasks_required()
        view = await self.find(rpc.text("taskId"), caller)
        if view is None:
            raise unknown_task()
        return view

    async def find(self, task_id: str, caller: Caller) -> JobView | None:
        """Return the job of a task; None where there is none for the caller, or its result has expired."""
        view = await self._reads.of(caller).job(task_id)
        return None if view is None or _has_expired(view.job) else view

    async def created(self, view: JobView) -> dict[str, Any]:
        """Return a task in answer to the call of a tool."""
        return {"resultType": "task", **await self._fields(view)}

    async def detailed(self, view: JobView, caller: Caller, root: str) -> dict[str, Any]:
        """Return a task as `tasks/get` and notifications show it."""
        task = await self._fields(view)
        if view.job.status not in (Status.COMPLETED, Status.FAILED):
            return task
        try:
            return {**task, "result": await self._result(view, caller, root)}
        except RpcError as error:
            return {**task, "status": "failed", "error": error.member()}

    async def _result(self, view: JobView, caller: Caller, root: str) -> msgspec.Raw:
        """Return the result of a task that has ended; one that is looked up again and again comes from memory."""
        key, pulse = StatusCacheKey(caller.org_id, view.job.job_id, trace=False, base=root), fingerprint_of(view)
        kept = self._kept.get(key)
        if kept is None or kept.pulse != pulse:
            result = {"resultType": "complete", **await self._results.ended(caller, view.job, root)}
            kept = CachedStatus(pulse, {}, msgspec.json.encode(result))
            self._kept.put(key, kept)
        return msgspec.Raw(kept.job)

    async def _fields(self, view: JobView) -> dict[str, Any]:
        job = view.job
        derived = await self._reads.derived_fields(view)
        return {
            "taskId": job.job_id,
            "status": _STATUSES.get(job.status, "working"),
            "statusMessage": status_sentence(job, derived),
            "createdAt": to_text(job.queued_at),
            "lastUpdatedAt": to_text(job.updated_at),
            "ttlMs": _ttl(job, self._context.settings.retention),
            "pollIntervalMs": min(derived.poll_after, LONGEST_POLL) * _MILLISECONDS,
            "_meta": {JOB_KEY: job_fields(view, derived)},
        }


def unknown_task() -> RpcError:
    """Return the error for a task that does not exist, belongs to another org or has expired: always the same."""
    return invalid_params("There is no such task, or it has expired.")


def _has_expired(job: JobRecord) -> bool:
    return job.status is Status.COMPLETED and job.result_expired_at is not None


def _ttl(job: JobRecord, policy: RetentionPolicy) -> int | None:
    """Return how long a task is kept from its creation; None while nothing will remove it."""
    kept = policy.final_results if job.status is Status.COMPLETED else policy.jobs
    if job.finished_at is None or job.held_at is not None or kept is None:
        return None
    return round(seconds_between(job.queued_at, after(job.finished_at, kept)) * _MILLISECONDS)


# -- subscriptions -----------------------------------------------------------------------------------------------------
# It is a position in what is stored, as every stream here: a client that reconnects and names the last number that it
# has seen gets what follows, each once and in order. Nothing of a subscription outlives its request.

_MOST_SUBJECTS = 50
#: A task is told at most twice a second; its end at once.
_TASK_SECONDS = 0.5
_PAGE_EVENTS, _PAGE_BYTES = 100, 65_536
_SNAPSHOT_EVENTS = (EventType.PARTIAL, EventType.COMPLETED)


class Subscriptions:
    """Opens streams."""

    def __init__(self, context: ApiContext, tasks: Tasks, results: ToolResults) -> None:
        self._context = context
        self._tasks = tasks
        self._results = results

    async def listen(self, request: Request, rpc: RpcRequest, caller: Caller) -> Response:
        """Return a stream about the tasks and resources that the client names, and that it may see."""
        asked = rpc.members("notifications")
        if "taskIds" in asked and not rpc.tasks:
            raise tasks_required()
        task_ids, uris = _texts(asked, "taskIds"), _texts(asked, "resourceSubscriptions")
        if len(task_ids) + len(uris) > _MOST_SUBJECTS:
            raise invalid_params(f"A subscription may name at most {_MOST_SUBJECTS} tasks and resources.")
        slot = ExitStack()
        slot.enter_context(self._context.services.followers.slots.take(caller.counted_as, "stream"))
        try:
            known = [task_id for task_id in task_ids if await self._tasks.find(task_id, caller) is not None]
            resources = [one for uri in uris if (one := await self._resource(uri, caller)) is not None]
        except BaseException:
            slot.close()
            raise
        honored: dict[str, Any] = {}
        if "taskIds" in asked:
            honored["taskIds"] = known
        if "resourceSubscriptions" in asked:
            honored["resourceSubscriptions"] = [one.uri for one in resources]
        root = self._results.root(request)
        return SubscriptionStream(self._context, self._tasks, caller, rpc, slot, honored, known, resources, root)

    async def _resource(self, uri: str, caller: Caller) -> ResourceAddress | None:
        """Return a resource that changes: a snapshot by its own id never does."""
        address = parse_uri(uri)
        if address is None or address.job_id is None:
            return None
        return address if await self._context.services.reads.of(caller).job(address.job_id) is not None else None


def _texts(asked: dict[str, Any], name: str) -> list[str]:
    given = asked.get(name, [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise invalid_params(f"params.notifications.{name} must be a list of texts.")
    return list(dict.fromkeys(given))


class SnapshotCursor:
    """How far one resource has been told: the number of its last snapshot."""

    def __init__(self, address: ResourceAddress, result_seq: int) -> None:
        self.uri = address.uri
        #: whether each snapshot is named, or only that there is another one
        self.names_each = address.after is not None
        self.result_seq = result_seq


class SubscriptionStream(EventStreamResponse[Watcher]):
    """One subscription."""

    def __init__(
        self,
        context: ApiContext,
        tasks: Tasks,
        caller: Caller,
        rpc: RpcRequest,
        slot: ExitStack,
        honored: dict[str, Any],
        task_ids: list[str],
        resources: list[ResourceAddress],
        root: str,
    ) -> None:
        self._meta = {SUBSCRIPTION_KEY: rpc.id}
        acknowledged = {"_meta": self._meta, "notifications": honored}
        first = as_event(notification_message("notifications/subscriptions/acknowledged", acknowledged))
        super().__init__(context, caller, HEARTBEAT + first)
        self._reads = context.services.reads
        self._tasks = tasks
        self._rpc = rpc
        self._slot = slot
        self._task_ids = frozenset(task_ids)
        self._resources: dict[str, list[ResourceAddress]] = {}
        for one in resources:
            self._resources.setdefault(one.job_id or "", []).append(one)
        self._cursors: dict[str, list[SnapshotCursor]] = {}
        #: the last event that was read of each job with resources
        self._positions: dict[str, int] = {}
        self._root = root

    def slot(self) -> ExitStack:
        """Keep the slot that was taken before anything was read."""
        return self._slot

    def following(self) -> AbstractContextManager[Watcher]:
        """Watch the jobs of all tasks and resources."""
        jobs = dict.fromkeys([*self._task_ids, *self._resources])
        return watching(self.followers, self.caller, list(jobs), org=False)

    async def follow(self, watcher: Watcher, /, sender: StreamSender, ends_at: float) -> None:
        """Tell the state of every task and the snapshots after each position, then what changes."""
        loop = asyncio.get_running_loop()
        while not self.over(watcher) and loop.time() < ends_at:
            watcher.event.clear()
            for topic in watcher.topics:
                if topic.is_set() and topic.next_at <= loop.time():
                    topic.clear()
                    await self._tell(topic, sender)
            held = [topic.next_at for topic in watcher.topics if topic.is_set()]
            await self.wait(watcher, sender, min([ends_at, *held]))
        if not watcher.left and not watcher.turned_away:
            await sender.send(as_event(result_message(self._rpc.id, {"_meta": self._meta})))

    async def _tell(self, topic: Topic, sender: StreamSender) -> None:
        """Tell what changed of a job; the snapshots that led to a state come before it."""
        job_id = topic.job_id or ""
        view = await self._reads.of(self.caller).job(job_id)
        if view is None or view.job.event_seq == topic.sent:
            return
        topic.sent = view.job.event_seq
        if job_id in self._resources:
            await self._tell_snapshots(job_id, view.job.event_seq, sender)
        if job_id in self._task_ids:
            topic.next_at = asyncio.get_running_loop().time() + _TASK_SECONDS
            task = await self._tasks.detailed(view, self.caller, self._root)
            await self._notify("notifications/tasks", {**task, "_meta": {**task["_meta"], **self._meta}}, sender)

    async def _tell_snapshots(self, job_id: str, newest: int, sender: StreamSender) -> None:
        if job_id not in self._cursors:
            await self._begin(job_id, newest, sender)
            return
        more = True
        while more:
            page = await self._reads.of(self.caller).log(
                job_id, after=self._positions[job_id], limit=_PAGE_EVENTS, most_bytes=_PAGE_BYTES
            )
            for event in page.events:
                self._positions[job_id] = event.event_seq
                if event.event_type in _SNAPSHOT_EVENTS:
                    told = msgspec.json.decode(event.payload_json)
                    about = {"result_id": told["result_id"], "job_id": job_id, "result_seq": told["result_seq"]}
                    await self._tell_snapshot(job_id, about, sender)
            more = page.more

    async def _begin(self, job_id: str, newest: int, sender: StreamSender) -> None:
        """Tell the snapshots that exist already after the numbers that the client knows."""
        snapshots = await self._reads.of(self.caller).results(job_id)
        last = max((one.result_seq for one in snapshots), default=0)
        self._positions[job_id] = newest
        self._cursors[job_id] = [
            SnapshotCursor(one, last if one.after is None else one.after) for one in self._resources[job_id]
        ]
        for snapshot in sorted(snapshots, key=lambda one: one.result_seq):
            await self._tell_snapshot(job_id, snapshot_fields(snapshot), sender)

    async def _tell_snapshot(self, job_id: str, about: dict[str, Any], sender: StreamSender) -> None:
        for cursor in self._cursors[job_id]:
            if about["result_seq"] > cursor.result_seq:
                cursor.result_seq = about["result_seq"]
                uri = result_uri(about["result_id"]) if cursor.names_each else cursor.uri
                params = {"uri": uri, "_meta": {SNAPSHOT_KEY: about, **self._meta}}
                await self._notify("notifications/resources/updated", params, sender)

    @staticmethod
    async def _notify(method: str, params: dict[str, Any], sender: StreamSender) -> None:
        await sender.send(as_event(notification_message(method, params)))
