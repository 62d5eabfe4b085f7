"""An application whose analyses are tools: results of every kind, progress, and gates that a test opens."""

import struct
import zlib
from typing import Annotated, Any

import msgspec

from langlauf import Job, Langlauf, PermanentError, Result, views
from tests.support.live import GATES


class Place(msgspec.Struct):
    """A place with its people."""

    name: str
    people: int


def png(side: int = 2) -> bytes:
    """Return a small red picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def tool_app() -> Langlauf:  # noqa: C901 - a list of small functions, not a way through them
    """Return the application."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def echo(job: Job, value: Any = None) -> dict[str, Any]:
        """Return what it was given."""
        return {"value": value, "org": job.org_id}

    @app.analysis(title="Find a place", mcp={"read_only": True, "open_world": False})
    async def find_place(
        job: Job, name: Annotated[str, msgspec.Meta(min_length=2, description="Its name, such as Bern.")]
    ) -> Place:
        """Find a place by its name."""
        return Place(name, 140_000)

    @app.analysis
    async def greet(job: Job, name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    @app.analysis(mcp={"task": True})
    async def recount(job: Job, name: str) -> str:
        """Count again, which is always a task."""
        return f"{name} again"

    @app.analysis
    async def wait(job: Job, gate: str, partials: int = 0) -> dict[str, Any]:
        """Store partials, then wait at a gate."""
        await job.progress(5, "Opening")
        for number in range(1, partials + 1):
            await job.partial({"n": number}, summary={"n": number}, progress=5 + number * 5, step=f"Part {number}")
        await GATES.wait(gate)
        return {"gate": gate}

    @app.analysis
    async def stepwise(job: Job, gates: list[str]) -> dict[str, Any]:
        """Store a partial behind each gate."""
        for number, gate in enumerate(gates, 1):
            await GATES.wait(gate)
            if number < len(gates):
                await job.partial({"n": number}, progress=100 * number // len(gates), step=f"Part {number}")
        return {"n": len(gates)}

    @app.analysis(duplicates=True)
    async def fail(job: Job, how: str) -> None:
        """Fail in the given way."""
        await job.partial({"before": how})
        if how == "input":
            raise PermanentError("There is no such place.", code="unknown_place")
        raise RuntimeError("a mistake in the code")

    @app.analysis(duplicates=True)
    async def show(job: Job, rows: int = 3) -> Result:
        """Return views of every kind."""
        table = [{"place": f"Place {number}", "people": number * 10, "note": "a|b\nc"} for number in range(rows)]
        return Result(
            {"rows": table},
            summary={"rows": rows},
            views=[
                views.table(at="/rows", title="Places", columns={"place": "Place", "people": "People"}),
                views.markdown("**Two** words.", title="Remark"),
                views.image(png(), alt="A red square"),
                views.file("places.csv", "place,people\nBern,1\n"),
                views.file("tone.wav", b"RIFF", media_type="audio/wav"),
                views.chart({"mark": "bar"}, summary="It rises."),
            ],
        )

    @app.analysis(duplicates=True)
    async def large(job: Job, size: int) -> dict[str, Any]:
        """Return a result of a size."""
        return {"text": "x" * size}

    @app.analysis(mcp=False)
    async def hidden(job: Job) -> None:
        """Not for agents."""

    return app
