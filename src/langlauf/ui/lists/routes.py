"""The addresses of the lists."""

from starlette.routing import Route

from langlauf.api.context import Context
from langlauf.domain.access import Scope
from langlauf.ui.lists.errors import ErrorPages
from langlauf.ui.lists.inbox import InboxPages
from langlauf.ui.lists.jobs import JobsPage
from langlauf.ui.lists.selected import SelectedPages
from langlauf.ui.rendering import Rendering

#: A hundred ids, and the words of a reason.
_FORM_OF_MANY = 32_768


def list_routes(context: Context, rendering: Rendering) -> list[Route]:
    """Jobs, failures by cause, inbox, and what can be done there. They come before the page of one job."""
    selected, errors, inbox = (
        SelectedPages(context, rendering),
        ErrorPages(context, rendering),
        InboxPages(context, rendering),
    )
    page, form, missing = rendering.tenant_page, rendering.tenant_form, "missing.page"
    return [
        page("/jobs", JobsPage(context, rendering).show, missing=missing),
        page("/selected", selected.ask, missing=missing),
        form("/selected/cancel", selected.cancel, scope=Scope.CANCEL, missing=missing, largest=_FORM_OF_MANY),
        form("/selected/again", selected.again, scope=Scope.SUBMIT, missing=missing, largest=_FORM_OF_MANY),
        page("/errors", errors.show, missing=missing),
        page("/errors/again", errors.ask, missing="missing.group"),
        form("/errors/again", errors.again, scope=Scope.SUBMIT, missing="missing.group"),
        page("/inbox", inbox.show, missing=missing),
        form("/inbox/read", inbox.read, scope=Scope.READ, missing=missing),
    ]
