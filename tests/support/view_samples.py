"""Analyses whose results have something to look at, and what an attacker would put there."""

import struct
import zlib
from typing import Any

from langlauf import Job, Langlauf, Result, views
from tests.support.live import GATES, sample_app

#: The largest whole numbers that a result may hold.
EXACT = 9_007_199_254_740_985
ATTACK = "<script>window.hit=1</script><img src=x onerror='window.hit=1'>\"'><svg onload=window.hit=1>{{7*7}}"
MARKDOWN = f"""# Noise in the quarter

**Quiet** by night, *loud* by day. See [the map](https://example.org/map) or [not]({"javascript:window.hit=1"}).

- one
- two

| street | level |
|---|---|
| Langstrasse | 71 |

> As measured.

```
code {ATTACK}
```

{ATTACK}

![a picture](https://example.org/p.png)
"""
CITIES = [
    {"id": EXACT, "name": "Zürich", "level": 71.50, "share": 0.31, "tags": ["loud", "busy"], "api_token": "xyzzy"},
    {"id": EXACT + 2, "name": "Bern", "level": 64.25, "share": 0.22, "tags": [], "api_token": "def"},
    {"id": EXACT + 4, "name": ATTACK, "level": -3, "share": None, "tags": {"a": {"b": ATTACK}}, "api_token": "ghi"},
]
BARS: dict[str, Any] = {
    "data": {
        "values": [{"city": "Zürich", "level": 71.5}, {"city": "Bern", "level": 64.2}, {"city": "Chur", "level": 58}]
    },
    "mark": "bar",
    "encoding": {
        "x": {"field": "city", "type": "nominal", "sort": "-y", "title": "City"},
        "y": {"field": "level", "type": "quantitative", "title": "Level (dB)"},
    },
}


def feature(kind: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    """Something on a map."""
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


PLACES: dict[str, Any] = {
    "type": "FeatureCollection",
    "features": [
        feature("Point", [8.54, 47.37], name="Zürich", level=71.5),
        feature("Point", [7.44, 46.95], name=ATTACK),
        feature("LineString", [[8.54, 47.37], [8.1, 47.2], [7.44, 46.95]], name="A way"),
        feature("Polygon", [[[8.2, 46.9], [8.9, 46.9], [8.7, 47.2], [8.2, 46.9]]], name="An area"),
    ],
}
SVG = f"<svg xmlns='http://www.w3.org/2000/svg'><script>window.hit=1</script>{ATTACK}</svg>".encode()


def png(width: int = 2, height: int = 3) -> bytes:
    """A grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def all_views() -> list[views.AnyView]:
    """One of each kind, hostile where it can be."""
    columns = [
        views.Column(name="name", title="City"),
        views.Column(name="id"),
        views.Column(name="level", title="Level", unit="dB"),
        *(views.Column(name=name) for name in ("share", "tags", "api_token")),
    ]
    return [
        views.table(CITIES, title="Cities", columns=columns),
        views.chart(BARS, title="Levels", summary="Zürich is the loudest of three cities."),
        views.map(PLACES, title="Where"),
        views.markdown(MARKDOWN, title="Report"),
        views.image(png(320, 120), alt="A grey field", title="Picture"),
        views.file("levels.csv", "a,b\n1,2\n", title="Levels as CSV"),
    ]


def showing_app(**options: Any) -> Langlauf:
    """The sample analyses, and some with views."""
    app = sample_app(**options)

    @app.analysis(duplicates=True)
    async def shown(job: Job, place: str) -> Result:
        """Shows everything that can be shown."""
        await job.partial({"rows": CITIES[:1], "count": 1}, summary={"cities": 1}, progress=40)
        summary = {"cities": len(CITIES), "loudest": "Zürich", "note": ATTACK}
        return Result({"rows": CITIES, "count": 3, "password": "hidden-word"}, summary=summary, views=all_views())

    @app.analysis(duplicates=True)
    async def plain(job: Job, payload: Any) -> Any:
        """Gives back what it was given, without a word on how to show it."""
        return payload

    @app.analysis(duplicates=True)
    async def charted(job: Job, spec: dict[str, Any]) -> Result:
        """Shows a chart."""
        return Result({"ok": True}, views=[views.chart(spec)])

    @app.analysis(duplicates=True)
    async def growing(job: Job, gate: str) -> dict[str, Any]:
        """Its table grows from version to version, and waits at a gate before the last."""
        rows = [{"key": "a", "n": 1}, {"key": "b", "n": 2}]
        await job.partial({"rows": rows, "of": {"city": "Bern"}})
        await job.partial(
            {"rows": [{"key": "a", "n": 1}, {"key": "b", "n": 3}, {"key": "c", "n": 4}], "of": {"city": "Bern"}}
        )
        await GATES.wait(gate)
        return {"rows": [{"key": "c", "n": 4}], "of": {"city": ATTACK}, "more": True}

    @app.analysis(duplicates=True)
    async def repeated(job: Job) -> dict[str, Any]:
        """Its last interim result is the final one."""
        await job.partial({"rows": [{"key": "a", "n": 1}]})
        return {"rows": [{"key": "a", "n": 1}]}

    return app
