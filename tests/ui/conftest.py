"""One server for the tests of a module, with analyses that put markup everywhere they can."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

from langlauf import Job, Langlauf, PermanentError
from tests.support.live import GATES, Live, live, sample_app

HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;{{7*7}}"
Hostile = Annotated[str, msgspec.Meta(description=HOSTILE, examples=[f"it's {HOSTILE}"])]


def hostile_app(**options: Any) -> Langlauf:
    """The sample analyses, and one whose every text is an attack."""
    app = sample_app(**options)

    async def hostile(job: Job, gate: str, query: Hostile, mode: str = HOSTILE) -> dict[str, Any]:
        await job.partial({HOSTILE: query}, summary={HOSTILE: [HOSTILE], "text": HOSTILE}, progress=30, step=HOSTILE)
        await GATES.wait(gate)
        if mode == "fail":
            raise PermanentError(HOSTILE, code=HOSTILE)
        return {"query": query, "mode": mode}

    hostile.__doc__ = f"{HOSTILE}\n\n{HOSTILE}"
    app.analysis(hostile)
    return app


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses and the hostile one."""
    with live(tmp_path_factory.mktemp("ui"), hostile_app(), LANGLAUF_MAX_RUNNING="16") as running:
        yield running
