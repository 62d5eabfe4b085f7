"""Where an answer leads: operations that take an id which this one has just given out."""

from langlauf.api.openapi.shapes import Document

_JOB = "$response.body#/job/job_id"
_FROM_JOB = {
    "status": ("jobStatus", "How it goes on."),
    "events": ("jobEvents", "What happened so far."),
    "results": ("jobResults", "Its snapshots, partial ones included."),
    "notifications": ("jobNotifications", "Its messages."),
    "cancel": ("cancelJob", "Stop it."),
    "retry": ("retryJob", "Do it again once it has ended."),
}
_LINKS: dict[tuple[str, int], dict[str, tuple[str, str, str, str]]] = {
    ("analyze", 200): {
        "status": ("jobStatus", "job_id", "$response.body#/job_id", "The job that was waited for."),
        "result": ("result", "result_id", "$response.body#/result_id", "The permanent link of the result."),
    },
    ("jobStatus", 200): {
        "result": ("result", "result_id", "$response.body#/job/result_id", "The newest snapshot, once there is one."),
    },
    ("listJobs", 200): {
        "next": ("listJobs", "cursor", "$response.body#/next_cursor", "The next page, where there is one."),
    },
    ("jobEvents", 200): {
        "job": ("jobStatus", "job_id", "$request.path.job_id", "The job."),
    },
    ("result", 200): {
        "views": ("resultViews", "result_id", "$response.body#/result_id", "What people are to see of it."),
        "job": ("jobStatus", "job_id", "$response.body#/job_id", "The job that the snapshot is of."),
    },
}


def links(operation: str, status: int) -> Document:
    """The links of one answer, by name."""
    if (operation, status) in (("analyze", 202), ("retryJob", 202)):
        return {name: _link(target, "job_id", _JOB, text) for name, (target, text) in _FROM_JOB.items()}
    return {name: _link(*parts) for name, parts in _LINKS.get((operation, status), {}).items()}


def _link(target: str, parameter: str, expression: str, text: str) -> Document:
    return {"operationId": target, "parameters": {parameter: expression}, "description": text}
