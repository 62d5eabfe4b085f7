"""What is wrong with a file."""

from langlauf.store.sqlite.snapshot import check_file
from langlauf.store.tools.verify import Violation


def verify_file(path: str) -> list[Violation]:
    """Return the violations in the file without warnings; raise `StoreError` where it cannot be checked."""
    return [found for found in check_file(path) if not found.warning]
