"""`python -m tests.store_contract.killed_firer STORE VERB`: fires what is due, and dies where it would call a verb."""

import asyncio
import os
import signal
import sys
from typing import Any

from langlauf import Job, Langlauf
from langlauf.bootstrap import make_services, open_store
from langlauf.hints import Hints
from langlauf.service.schedules import ScheduleFirer
from langlauf.settings import load_settings


def make_app(place: str) -> Langlauf:
    """An analysis that no worker runs here: its jobs stay queued."""
    app = Langlauf(settings=load_settings({"LANGLAUF_STORE": place}))

    @app.analysis
    async def survey(job: Job, region: str = "BE") -> dict[str, str]:
        return {"region": region}

    return app


async def fire(place: str, verb: str | None) -> int:
    """Fire what is due once; with a verb of schedules, be killed instead of calling it."""
    app, hints = make_app(place), Hints()
    store = await open_store(app.settings, hints)
    try:
        if verb is not None:

            async def die(*_: Any, **__: Any) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(store.schedules, verb, die)
        services = make_services(store, app.registry, app.settings, hints)
        return await ScheduleFirer(store, app.registry, services.submissions).fire()
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(fire(*sys.argv[1:3]))
