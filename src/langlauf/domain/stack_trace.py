"""The stored stack trace of a failed attempt, read for people: what was raised, and where in the application."""

import re

import msgspec

#: Between the trace of a cause and that of the error it led to.
LED_TO = "\nThis led to:\n\n"
#: Stands for frames of libraries, which are left out except the last of all.
LIBRARY_FRAMES = "  [{frames} of libraries]\n"
LIBRARY_FRAMES_TO_THE_LAST = "  [{frames} of libraries, the last of which is:]\n"
#: Above frames of which none is the application's.
ONLY_LIBRARY_FRAMES = "  [{frames}, all of libraries:]\n"
#: How the two lines end below which no frame is the application's.
_ONLY_LIBRARIES_FOLLOW = ("the last of which is:]", "all of libraries:]")
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>[^\n]*)')


class CodePlace(msgspec.Struct, frozen=True):
    """A line of the application's code."""

    file: str
    line: int
    function: str
    #: the source, where it could be read
    code: str = ""

    @property
    def short(self) -> str:
        """File, without its folder, and line."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}"


class ErrorCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed."""

    #: type and text of the exception
    error: str
    #: where the application raised it, or called the library that did; None where no frame is the application's
    place: CodePlace | None
    trace: str

    @property
    def kind(self) -> str:
        """The type of the exception."""
        return self.error.partition(":")[0]


def read_cause(trace: str) -> ErrorCause:
    """Read a stored trace. The place is that of the last error with a frame of the application."""
    parts = trace.split(LED_TO)
    places = [place for part in parts if (place := _own_place(part.split("\n"))) is not None]
    return ErrorCause(error=_raised(parts[-1].split("\n")), place=places[-1] if places else None, trace=trace)


def _own_place(lines: list[str]) -> CodePlace | None:
    """Return the innermost frame of the application: frames of libraries are marked."""
    end = next((number for number, line in enumerate(lines) if line.endswith(_ONLY_LIBRARIES_FOLLOW)), len(lines))
    for number in reversed(range(end)):
        if found := _FRAME.fullmatch(lines[number]):
            following = lines[number + 1] if number + 1 < end else ""
            code = following.strip() if following.startswith("    ") else ""
            # The first line of a call over several lines says nothing, such as `raise PermanentError(`.
            code = "" if code.endswith("(") else code
            return CodePlace(found["file"], int(found["line"]), found["function"], code)
    return None


def _raised(lines: list[str]) -> str:
    """Return the text after the last frame and its source."""
    frames = [number for number, line in enumerate(lines) if _FRAME.fullmatch(line)]
    after = lines[frames[-1] + 1 :] if frames else lines
    while after and after[0].startswith("    "):
        after = after[1:]
    return "\n".join(after).strip()
