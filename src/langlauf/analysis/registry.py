"""The registered analyses, and references by name, by which another process finds a function. Nothing is pickled."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from langlauf.analysis.schema import InvalidInput, canonical_json, input_type, read_input
from langlauf.analysis.texts import Wording, wording_of
from langlauf.domain.errors import RegistrationError
from langlauf.domain.instant import from_datetime
from langlauf.domain.job import LONGEST_TIMEOUT
from langlauf.domain.provenance import DERIVED
from langlauf.domain.schedule import InvalidSchedule, Schedule, check_schedule


def reference_to(named: Any) -> str:
    """Return `module:name` of something at the top level of its module, or in a class there."""
    module, name = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if not module or not name:
        raise RegistrationError(f"{named!r} has no name by which another process could import it")
    if "<" in name:
        raise RegistrationError(
            f"{name} is defined inside a function, where no other process can import it: move it to the top of {module}"
        )
    return f"{module}:{name}"


def resolve(reference: str) -> Any:
    """Return what the reference names; import its module if necessary."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


Function = Callable[..., Any]
DEFAULT_TIMEOUT = 1_800.0
DEFAULT_MAX_RETRIES = 3
_VERSION = re.compile(rf"(?!{DERIVED})[!-~](?:[ -~]{{0,62}}[!-~])?")
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an analysis is described to agents, to which it is a tool; None leaves it to the client."""

    #: for the model, instead of the docstring
    description: str | None = None
    #: whether it changes nothing outside of itself
    read_only: bool | None = None
    #: whether it may delete or overwrite something
    destructive: bool | None = None
    #: whether calling it again with the same input changes nothing more
    idempotent: bool | None = None
    #: whether it reaches systems beyond this server
    open_world: bool | None = None
    #: whether a call is always a task, and refused to clients that do not follow tasks
    task: bool = False


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """A registered function and the rules of its jobs."""

    name: str
    function: Function
    input_type: type[msgspec.Struct]
    description: str
    wording: Wording = Wording()
    timeout: float = DEFAULT_TIMEOUT
    max_retries: int = DEFAULT_MAX_RETRIES
    #: whether a second job with the same input is accepted while one is unfinished
    duplicates: bool = False
    cancelable: bool = True
    max_running: int | None = None
    queue_limit: int | None = None
    #: exception types that are transient for this analysis
    transient: tuple[type[BaseException], ...] = ()
    #: the same by name, for processes; those of a coroutine need no name
    transient_references: tuple[str, ...] = ()
    #: its description as a tool of agents; None hides it from them
    tool: ToolOptions | None = None
    #: whether it is a plain `def`, which runs in a process of its own; follows from the function
    plain: bool = False
    #: as declared; results of another version are not reused
    version: str | None = None
    #: for so many seconds a result is reused for the same input; None: never
    reuse: float | None = None
    #: the fields of the schedule that its decorator asks for
    planned: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """What people read instead of its name."""
        return self.wording.title or self.name

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "plain", not inspect.iscoroutinefunction(self.function))


def _planned(name: str, input_type: type[msgspec.Struct], rules: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a schedule from `every`, `zone` and `given`, which are taken out of the rules."""
    every, zone, given = (rules.pop(rule, None) for rule in ("every", "zone", "given"))
    if every is None:
        if zone is not None or given is not None:
            raise RegistrationError(f"{name}: zone and given need every, such as every='0 6 * * 1-5'")
        return None
    interval = isinstance(every, int | float)
    times: dict[str, Any] = {"cron": None if interval else every, "every_seconds": float(every) if interval else None}
    try:
        text = canonical_json(read_input(input_type, dict(given or {})))
        one = Schedule(org_id="org", name=name, analysis=name, input=text, zone=zone or "UTC", **times)
        check_schedule(one, from_datetime(datetime.now(UTC)))
    except InvalidInput as error:
        raise RegistrationError(f"{name}: given: {error.message}") from None
    except InvalidSchedule as error:
        raise RegistrationError(f"{name}: every: {error.message}") from None
    return {"analysis": name, "input": text, "zone": one.zone, **times}


def _check_rules(analysis: Analysis) -> None:
    if not 0 < analysis.timeout <= LONGEST_TIMEOUT:
        raise RegistrationError(f"{analysis.name}: timeout={analysis.timeout} is not over 0 and at most ten years")
    if analysis.max_retries < 0:
        raise RegistrationError(f"{analysis.name}: max_retries must be 0 or more")
    if analysis.version is not None and not _VERSION.fullmatch(analysis.version):
        raise RegistrationError(f"{analysis.name}: version must be 1 to 64 printable characters, not {DERIVED}…")
    if analysis.reuse is not None and not 0 < analysis.reuse <= LONGEST_TIMEOUT:
        raise RegistrationError(f"{analysis.name}: reuse must be over 0 and at most ten years")
    for limit in ("max_running", "queue_limit"):
        value = getattr(analysis, limit)
        if value is not None and value < 1:
            raise RegistrationError(f"{analysis.name}: {limit} must be 1 or more")


def _check_function(function: Function, name: str) -> None:
    """Refuse a function that a process cannot run, at registration and not at the first job."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise RegistrationError(
            f"{name}: a generator cannot be an analysis; return the result, show parts with job.partial"
        )
    if not inspect.iscoroutinefunction(function):
        try:
            reference_to(function)
        except RegistrationError as error:
            raise RegistrationError(f"{name}: a plain `def` runs in a process of its own; {error}") from None


def _references(function: Function, transient: tuple[type[BaseException], ...]) -> tuple[str, ...]:
    """Return references to exception types. A plain function needs all of them, a coroutine those that have one."""
    references = []
    for kind in transient:
        try:
            references.append(reference_to(kind))
        except RegistrationError:
            if not inspect.iscoroutinefunction(function):
                raise
    return tuple(references)


def _tool_options(name: str, given: Any) -> ToolOptions | None:
    if isinstance(given, bool):
        return ToolOptions() if given else None
    try:
        return msgspec.convert(given, ToolOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(ToolOptions.__struct_fields__)
        raise RegistrationError(f"{name}: mcp= takes False, or a dict with some of {known}: {error}") from None


class Registry:
    """The registered analyses; the first one is the default unless another is chosen."""

    def __init__(self) -> None:
        self._analyses: dict[str, Analysis] = {}
        self._reserved: dict[str, Analysis] = {}
        self._default: str | None = None
        self._default_was_chosen = False

    def register(self, function: Function, *, name: str | None = None, default: bool = False, **rules: Any) -> Analysis:
        """Register a function; refuse what cannot work now and not at the first job."""
        analysis = self._made(function, name or function.__name__, rules)
        if any(known.input_type.__name__ == analysis.input_type.__name__ for known in self):
            raise RegistrationError(f"{analysis.name} is too similar to the name of another analysis; rename it")
        self._analyses[analysis.name] = analysis
        self._choose_default(analysis.name, default)
        return analysis

    def reserve(self, function: Function, *, name: str, **rules: Any) -> Analysis:
        """Register a built-in function: it runs like any other, and is in no list and no form."""
        self._reserved[name] = self._made(function, name, rules)
        return self._reserved[name]

    def _made(self, function: Function, name: str, rules: dict[str, Any]) -> Analysis:
        if not _NAME.match(name):
            raise RegistrationError(f"{name!r} is not a usable name: letters, digits, dot, dash and underscore")
        if self.get(name) is not None:
            raise RegistrationError(f"an analysis called {name} is registered already")
        _check_function(function, name)
        made = input_type(function, name)
        rules = dict(rules)
        planned = _planned(name, made, rules)
        analysis = Analysis(
            planned=planned,
            name=name,
            function=function,
            input_type=made,
            description=inspect.getdoc(function) or "",
            wording=wording_of(name, made.__struct_fields__, rules),
            transient_references=_references(function, rules.get("transient", ())),
            tool=_tool_options(name, rules.pop("mcp", True)),
            **rules,
        )
        _check_rules(analysis)
        return analysis

    def _choose_default(self, name: str, chosen: bool) -> None:
        if chosen and self._default_was_chosen:
            raise RegistrationError(f"{name} and {self._default} both have default=True; keep one")
        if chosen or self._default is None:
            self._default = name
        self._default_was_chosen = self._default_was_chosen or chosen

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, in the order of registration."""
        return tuple(self._analyses)

    @property
    def runnable(self) -> tuple[str, ...]:
        """Return the names of all analyses that a worker can run, including built-in ones."""
        return (*self._analyses, *self._reserved)

    @property
    def default(self) -> str | None:
        """Return the analysis of requests that name none."""
        return self._default

    def get(self, name: str) -> Analysis | None:
        """Return the analysis of that name, or None."""
        return self._analyses.get(name) or self._reserved.get(name)

    def __iter__(self) -> Iterator[Analysis]:
        return iter(self._analyses.values())
