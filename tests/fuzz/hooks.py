"""What a generator cannot know: ids that exist, orgs that own them, preferences that mean something."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.transport import Response
from schemathesis.hooks import unregister
from schemathesis.openapi.checks import RejectedPositiveData

from langlauf.auth.credentials import QUERY_TOKEN
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER
from tests.fuzz.target import ORG, Known

#: How often an id in a path is one that exists.
_KNOWN_SHARE = 0.7
_PREFERENCE_SHARE = 0.5
_PREFERENCES = ("respond-async", "respond-async, wait=1", "wait=1", "return=minimal", 'respond-async; foo="a, b"')
#: What a document cannot say of a value, although the contract does: it must be one that the server gave out, as a text
#: no longer than the same as a number, and of characters that can be printed.
_BEYOND_A_SCHEMA = {"after", "cursor", "Last-Event-ID", "expires_in", "name"}
#: Nor that an address can be called, and signed for; nor that a mailbox is written in the plain form.
_BEYOND_A_SCHEMA |= {"url", "overlap", "options.async_mode.notify.webhook", "options.async_mode.notify.email"}
#: Nor that a schedule has either of two fields, and what a cron expression and a zone are.
_BEYOND_A_SCHEMA |= {"cron", "every_seconds", "zone"}
#: Nor that the input of a schedule is that of the analysis which its other field names.
_INPUT = "input."

AnyCase: TypeAlias = Case[Any]


class Knowledge:
    """Drawn from a generator of its own, so that a seed gives the same run again."""

    def __init__(self, known: Known, seed: int) -> None:
        self._known = known
        self._random = random.Random(seed)

    @contextmanager
    def taught(self) -> Iterator[None]:
        """Takes part in every case until the block ends."""

        def before_call(context: HookContext, case: AnyCase, kwargs: dict[str, Any]) -> None:
            self._correct(case)

        def filter_failure(context: HookContext, failure: Failure, case: AnyCase, response: Response) -> bool:
            return not _is_rightly_refused(failure, response)

        hooks: list[Callable[..., Any]] = [before_call, filter_failure]
        for hook in hooks:
            schemathesis.hook(hook)
        try:
            yield
        finally:
            for hook in hooks:
                unregister(hook)

    def _correct(self, case: AnyCase) -> None:
        """Changes only what was meant to be valid: a mistake that was made on purpose stays one."""
        headers_are_valid = _is_valid(case, ParameterLocation.HEADER)
        if headers_are_valid:
            self._agree_on_org(case)
            case.headers.pop("X-API-Key", None)  # beside the good key of every case another one is refused
        if _is_valid(case, ParameterLocation.QUERY):
            case.query.pop(QUERY_TOKEN, None)
            if case.operation.definition.raw["operationId"] == "feed" and "wait" in case.query:
                case.query["wait"] = 0  # in most orgs nothing ever happens
        if isinstance(case.body, dict | list) and _is_valid(case, ParameterLocation.BODY):
            case.body = _whole(case.body)
        if headers_are_valid and _is_valid(case, ParameterLocation.PATH):
            self._use_known_id(case)
        if (
            headers_are_valid
            and case.operation.definition.raw["operationId"] == "analyze"
            and self._random.random() < 0.5
        ):
            case.headers["Prefer"] = self._random.choice(_PREFERENCES)

    def _agree_on_org(self, case: AnyCase) -> None:
        """Both names of the org may be sent, but only with one value."""
        if "X-Org-Id" in case.headers and "X-Tenant-Id" in case.headers:
            case.headers["X-Tenant-Id"] = case.headers["X-Org-Id"]

    def _use_known_id(self, case: AnyCase) -> None:
        for name in set(self._known.ids) & set(case.path_parameters):
            if self._random.random() < _KNOWN_SHARE:
                chosen = self._random.choice(self._known.ids[name])
                case.path_parameters[name] = chosen
                case.headers.pop("X-Tenant-Id", None)
                case.headers["X-Org-Id"] = ORG
                if chosen in self._known.going_on and _is_valid(case, ParameterLocation.QUERY) and "wait" in case.query:
                    case.query["wait"] = 0


def _whole(value: Any) -> Any:
    """Whole numbers without a decimal point and without too many digits: what takes anything cannot say so."""
    if isinstance(value, dict):
        return {name: _whole(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_whole(child) for child in value]
    if isinstance(value, float) and value.is_integer() and SMALLEST_INTEGER <= value < LARGEST_INTEGER:
        return int(value)
    if isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return 0
    return value


def _is_rightly_refused(failure: Failure, response: Response) -> bool:
    """A valid-looking cursor that nobody gave out is refused, as is a text of too many days; that is no failure."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return False
    field = response.json().get("field") or ""
    return field in _BEYOND_A_SCHEMA or field.startswith(_INPUT)


def _is_valid(case: AnyCase, location: ParameterLocation) -> bool:
    if case.meta is None:
        return True
    part = case.meta.components.get(location)
    return part is None or part.mode.is_positive
