"""JSON as a tree that opens and closes: a list of steps, so that no depth is too much for a template."""

from typing import Literal

import msgspec
from msgspec import Raw

from langlauf.ui.formatting import LARGEST_JSON
from langlauf.ui.showing.table import Cell, cell_of, cut
from langlauf.ui.showing.written import is_hidden, is_list, is_object, items, members

MOST_NODES = 5_000
DEEPEST = 24
#: These levels are open from the start.
_OPEN_LEVELS = 2
#: What holds more than this starts closed, however near to the top it is.
_MOST_OPEN = 50
_LONGEST_NAME = 200


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step along the tree: into a branch, over a leaf, or out again."""

    kind: Literal["into", "leaf", "out"]
    name: str = ""
    #: of a branch: an object or a list, how many are in it, whether it is open
    shape: Literal["object", "list"] = "object"
    count: int = 0
    open: bool = False
    cell: Cell | None = None


def steps_of(value: Raw) -> list[Step] | None:
    """The way through a value; None where that is too long to look at."""
    if memoryview(value).nbytes > LARGEST_JSON:
        return None
    steps: list[Step] = []
    return steps if _walk(value, "", 0, steps) else None


def _walk(value: Raw, name: str, depth: int, steps: list[Step]) -> bool:
    """Adds the steps of a value. False where they have become too many."""
    if len(steps) > 2 * MOST_NODES:
        return False
    shown = cut(name, _LONGEST_NAME)
    branch = (is_object(value) or is_list(value)) and depth < DEEPEST and not is_hidden(name, value)
    if not branch:
        steps.append(Step(kind="leaf", name=shown, cell=cell_of(name, value)))
        return True
    inside = members(value) if is_object(value) else {str(number): one for number, one in enumerate(items(value))}
    if len(inside) > MOST_NODES:
        return False
    open_now = depth < _OPEN_LEVELS and len(inside) <= _MOST_OPEN
    shape: Literal["object", "list"] = "object" if is_object(value) else "list"
    steps.append(Step(kind="into", name=shown, shape=shape, count=len(inside), open=open_now))
    if not all(_walk(one, key, depth + 1, steps) for key, one in inside.items()):
        return False
    steps.append(Step(kind="out"))
    return True
