"""What a process must know of the application before it can run its functions."""

import sys

from langlauf.analysis.naming import reference_to, resolve
from langlauf.analysis.registry import Registry
from langlauf.domain.errors import RegistrationError
from langlauf.worker.processes.child_protocol import Begin

_MAIN = "__main__"


def begin_with(registry: Registry, memory: int | None) -> Begin:
    """The modules of the analyses, and how to find them."""
    modules = {analysis.function.__module__ for analysis in registry}
    main = sys.modules[_MAIN] if _MAIN in modules else None
    spec = getattr(main, "__spec__", None)
    return Begin(
        path=list(sys.path),
        main_module=None if spec is None else spec.name,
        main_file=getattr(main, "__file__", None),
        modules=sorted(modules - {_MAIN}),
        memory=memory,
    )


def check_names(registry: Registry) -> None:
    """Refuses a plain function that another process would not find under its name."""
    for analysis in registry:
        if analysis.plain:
            reference = reference_to(analysis.function)
            try:
                found = resolve(reference)
            except (ImportError, AttributeError):
                found = None
            if found is not analysis.function:
                raise RegistrationError(
                    f"{analysis.name}: {reference} is something else by now, so a process cannot run it; "
                    "put @app.analysis above all other decorators, and use each name once"
                )
