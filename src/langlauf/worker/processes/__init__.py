"""Plain functions run in child processes: kept warm, supervised from outside, and killed where necessary."""

#: Whether this process is such a child.
INSIDE = False
