"""`/help/states`: every state of a job, with its shape and its words."""

import msgspec
from starlette.responses import Response

from langlauf.domain.job import Phase
from langlauf.domain.state import TERMINAL, Status
from langlauf.ui.formatting import face
from langlauf.ui.rendering import PUBLIC, Rendering
from langlauf.ui.visit import Visit


class Shown(msgspec.Struct, frozen=True):
    """A state as people see it, and the words of the API behind it."""

    face: str
    #: the state that gives it its colour
    status: Status
    statuses: list[Status]
    phases: list[Phase]


#: In the order of a job's life: the way it should go, what can come between, and the ends.
ORDER = (
    "queued", "running", "partial", "silent", "backoff", "waiting", "canceling", "completed", "failed", "canceled",
)  # fmt: skip


def shown_states() -> list[Shown]:
    """Every face that a job can have."""
    found: dict[str, Shown] = {}
    for status in Status:
        for phase in _phases(status):
            shown = found.setdefault(face(status, phase), Shown(face(status, phase), status, [], []))
            if status not in shown.statuses:
                shown.statuses.append(status)
            if phase not in shown.phases:
                shown.phases.append(phase)
    return sorted(found.values(), key=lambda shown: ORDER.index(shown.face))


def _phases(status: Status) -> list[Phase]:
    if status in TERMINAL:
        return [Phase.DONE]
    return [Phase.WAITING] if status is Status.QUEUED else [phase for phase in Phase if phase is not Phase.DONE]


class StatesPage:
    """`/help/states`."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    async def show(self, visit: Visit) -> Response:
        """The page; the same for everybody."""
        return self._rendering.page(visit, "states.html", cache=PUBLIC, states=shown_states())
