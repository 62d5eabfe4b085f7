"""The tools that the conformance suite of the protocol asks for, as analyses."""

import asyncio

from langlauf import Job, Langlauf, PermanentError, Result, views
from tests.mcp.tool_app import png

app = Langlauf()
#: Longer than the server of the suite waits inline: what takes this long is a task.
_LONG_SECONDS = 1.5
_TEXT = "This is a simple text response for testing."


@app.analysis
async def greet(job: Job, name: str) -> str:
    """Greet somebody; it never takes long enough for a task."""
    return f"Hello, {name}!"


@app.analysis(duplicates=True)
async def slow_compute(job: Job, seconds: float = 1, label: str = "") -> str:
    """Sleep for some seconds."""
    await asyncio.sleep(seconds)
    return f"Slept for {seconds:g} s. {label}"


@app.analysis(duplicates=True, mcp={"task": True})
async def failing_job(job: Job) -> None:
    """Fail for a reason that a caller can understand."""
    raise PermanentError("The job failed on purpose.")


@app.analysis(duplicates=True)
async def protocol_error_job(job: Job) -> None:
    """Fail by a mistake in the code."""
    await asyncio.sleep(_LONG_SECONDS)
    raise RuntimeError("a mistake on purpose")


@app.analysis(duplicates=True)
async def confirm_delete(job: Job, filename: str) -> str:
    """Delete nothing: it should ask first, which no job can."""
    await asyncio.sleep(_LONG_SECONDS)
    return f"{filename} is still there."


@app.analysis
async def test_simple_text(job: Job) -> str:
    """Return a text."""
    return _TEXT


@app.analysis
async def test_image_content(job: Job) -> Result:
    """Return a picture."""
    return Result(_TEXT, views=[views.image(png(), alt="red")])


@app.analysis
async def test_audio_content(job: Job) -> Result:
    """Return a sound."""
    return Result(_TEXT, views=[views.file("tone.wav", b"RIFF", media_type="audio/wav")])


@app.analysis
async def test_embedded_resource(job: Job) -> Result:
    """Return a small file."""
    return Result(_TEXT, views=[views.file("note.txt", _TEXT)])


@app.analysis
async def test_multiple_content_types(job: Job) -> Result:
    """Return a text, a picture and a small file."""
    return Result(_TEXT, views=[views.image(png(), alt="red"), views.file("note.json", "{}")])


@app.analysis
async def test_error_handling(job: Job) -> None:
    """Fail on purpose."""
    raise PermanentError("This tool intentionally returns an error for testing")


@app.analysis
async def test_tool_with_progress(job: Job) -> str:
    """Report progress."""
    for percent in (25, 50, 75):
        await job.progress(percent, f"{percent} of 100")
    return _TEXT


@app.analysis
async def test_logging_tool(job: Job) -> str:
    """Log nothing to the client."""
    return _TEXT
