"""What a deployment carries, computed from what an earlier run measured."""

from pathlib import Path

import msgspec

from langlauf.bench.capacity import Need, capacity
from langlauf.bench.figures import Modelled
from langlauf.bench.postgres_lines import Line, capacity_lines
from langlauf.domain.errors import LanglaufError


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a run, to which somebody has added what they need."""

    capacity: Modelled
    measured_at: str = ""
    need: Need = Need()


def asked_in(file: Path) -> tuple[str, list[Line]]:
    """A heading and the lines to print."""
    try:
        asked = msgspec.json.decode(file.read_bytes(), type=Asked)
    except msgspec.DecodeError as error:
        raise LanglaufError(f"{file} is not the JSON of a run that measured the capacity: {error}") from error
    heading = f"Computed from what was measured on {asked.measured_at[:10]}"
    return heading, capacity_lines(asked.need, capacity(asked.capacity.costs, asked.need))
