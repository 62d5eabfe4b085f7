"""`/stream`: server-sent hints that a job or the org has changed.

One stream serves all tabs of a browser. It carries no data: a tab fetches the page again, so that the server alone
renders. Bursts are combined, and the last hint of a burst is always sent.
"""

import asyncio
from contextlib import AbstractContextManager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langlauf.api.app import RouteHandler
from langlauf.api.context import ApiContext
from langlauf.api.requests import choice_parameter, refuse_unknown_parameters, text_parameter
from langlauf.api.sse import EventStreamResponse, StreamSender, message, opening
from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
from langlauf.problems import bad_request
from langlauf.service.follow import now_of, watching
from langlauf.service.follower import Topic, Watcher

STREAM_PATH = "/stream"
MAX_STREAM_JOBS = 50
_MAX_ID_LENGTH = 128
#: A topic is sent at most twice a second.
HINT_INTERVAL_SECONDS = 0.5


def stream_route(context: ApiContext) -> Route:
    """Return the route; its errors are the API's, because scripts read them."""

    async def answer(request: Request) -> Response:
        caller = await context.caller(request, Scope.READ)
        refuse_unknown_parameters(request, "jobs", "org")
        job_ids = _job_ids(text_parameter(request, "jobs", MAX_STREAM_JOBS * (_MAX_ID_LENGTH + 1)) or "")
        org = choice_parameter(request, "org", ("1",)) is not None
        if not job_ids and not org:
            raise bad_request("Name jobs to hear of, or org=1.", "jobs")
        return HintStream(context, caller, job_ids, org=org)

    return Route(STREAM_PATH, RouteHandler(answer), methods=["GET"])


def _job_ids(text: str) -> list[str]:
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    if len(names) > MAX_STREAM_JOBS:
        raise bad_request(f"jobs may name at most {MAX_STREAM_JOBS} jobs.", "jobs")
    return names


class HintStream(EventStreamResponse[Watcher]):
    """A stream of hints about several jobs, or about the caller's org."""

    def __init__(self, context: ApiContext, caller: Caller, job_ids: list[str], *, org: bool) -> None:
        super().__init__(context, caller, opening("what changed"))
        self._reads = context.services.reads
        self._job_ids = job_ids
        self._org = org

    def following(self) -> AbstractContextManager[Watcher]:
        """Watch the requested jobs and the org."""
        return watching(self.followers, self.caller, self._job_ids, org=self._org)

    async def follow(self, watcher: Watcher, /, sender: StreamSender, ends_at: float) -> None:
        """Send the current state of each topic, then its changes."""
        loop = asyncio.get_running_loop()
        while not self.over(watcher) and loop.time() < ends_at:
            watcher.event.clear()
            for topic in watcher.topics:
                if topic.is_set() and topic.next_at <= loop.time():
                    topic.clear()
                    await self._tell(topic, sender)
            held = [topic.next_at for topic in watcher.topics if topic.is_set()]
            await self.wait(watcher, sender, min([ends_at, *held]))

    async def _tell(self, topic: Topic, sender: StreamSender) -> None:
        """Send the state of a topic, unless it was sent already."""
        topic.next_at = asyncio.get_running_loop().time() + HINT_INTERVAL_SECONDS
        now = await now_of(topic, self.followers, self._reads, self.caller)
        if now is None or now == topic.sent:
            return
        topic.sent = now
        await sender.send(message({"org": now} if topic.job_id is None else {"job": topic.job_id, "seq": now}))
