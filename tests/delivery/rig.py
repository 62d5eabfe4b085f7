"""A real server that sends, and a second opening of its store for what the API does not do."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from langlauf.bootstrap import open_store_at
from langlauf.clock import SystemClock, new_id
from langlauf.domain.delivery import (
    FINAL_SUBJECTS,
    DeliveryAttempt,
    DeliveryFilter,
    EndpointChange,
    Notification,
    Subject,
    WebhookEndpoint,
)
from langlauf.domain.webhook import ENDPOINT_SECRETS_PURPOSE, endpoint_secret, secret_text
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.store.tools.location import parse_location
from tests.support.live import Live, live

T = TypeVar("T")
ORG = "default-org"
#: Tries follow each other quickly; none is cut off while its receiver is merely slow on a busy machine.
QUICK = {
    "LANGLAUF_WEBHOOK_ALLOW": "127.0.0.0/8",
    "LANGLAUF_WEBHOOK_SCHEDULE": "0.2,0.2,0.2,0.2",
    "LANGLAUF_WEBHOOK_SECONDS": "60",
}


class Rig:
    """A server that sends, and what is known of its deliveries."""

    def __init__(self, running: Live) -> None:
        self._place = parse_location(running.app.settings.store_path)
        self.live = running

    def ask(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """Asks the store, beside the server."""

        async def main() -> T:
            store = await open_store_at(self._place, Hints())
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(main())

    def endpoint(self, url: str, org: str = ORG, **values: Any) -> WebhookEndpoint:
        """An endpoint of an org."""
        return self.endpoints(url, org=org, **values)[0]

    def endpoints(
        self, *urls: str, org: str = ORG, subjects: tuple[Subject, ...] = FINAL_SUBJECTS
    ) -> list[WebhookEndpoint]:
        """Endpoints of an org."""

        async def add(store: Store) -> list[WebhookEndpoint]:
            made = [await store.deliveries.add_endpoint(_new(org, url, subjects)) for url in urls]
            return [one for one in made if one is not None]

        added = self.ask(add)
        assert len(added) == len(urls)
        return added

    def disabled(self, org: str = ORG) -> list[str]:
        """The endpoints that are not called any more."""
        found = self.ask(lambda store: store.tenant(org).endpoints())
        return [one.endpoint_id for one in found if one.disabled_at is not None]

    def change(self, endpoint: WebhookEndpoint, **values: Any) -> WebhookEndpoint:
        """Changes an endpoint."""
        change = EndpointChange(org_id=endpoint.org_id, endpoint_id=endpoint.endpoint_id, **values)
        changed = self.ask(lambda store: store.deliveries.change_endpoint(change))
        assert changed is not None
        return changed

    def secret(self, endpoint: WebhookEndpoint, version: int = 1) -> str:
        """The secret that its receiver was shown."""
        master = self.ask(lambda store: store.access.signing_secret(ENDPOINT_SECRETS_PURPOSE))
        return secret_text(endpoint_secret(master, endpoint.org_id, endpoint.endpoint_id, version))

    def messages(self, org: str = ORG, **which: Any) -> list[Notification]:
        """What was to be sent, newest first."""
        return self.ask(lambda store: store.tenant(org).deliveries(DeliveryFilter(**which)))

    def attempts(self, message: Notification) -> list[DeliveryAttempt]:
        """What became of a message, the last try first."""
        return self.ask(lambda store: store.tenant(message.org_id).delivery_attempts(message.notification_id, limit=50))

    def until(self, condition: Callable[[], T], seconds: float = 60.0) -> T:
        """What the condition gives, as soon as it gives something."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.05)  # the server writes the store by itself: there is nothing to wait for
        return found

    def settled(self, org: str = ORG, number: int = 1) -> list[Notification]:
        """The messages of an org, when so many are settled and none waits."""

        def found() -> list[Notification]:
            messages = self.messages(org)
            done = [one for one in messages if one.delivery_status != "pending"]
            return done if len(done) == len(messages) >= number else []

        return self.until(found)

    def run_job(self, org: str = ORG, **values: Any) -> dict[str, Any]:
        """A job that has ended."""
        job = self.live.submit("echo", org, query=new_id(), **values)
        return self.live.wait(job["job_id"], org)


def _new(org: str, url: str, subjects: tuple[Subject, ...]) -> WebhookEndpoint:
    now = SystemClock().now()
    return WebhookEndpoint(org_id=org, endpoint_id=new_id(), url=url, name="one", subjects=subjects, created_at=now)


@contextmanager
def rig(folder: Path, **environment: str) -> Iterator[Rig]:
    """Serves and sends until the block ends."""
    with live(folder, **{**QUICK, **environment}) as running:
        yield Rig(running)
