"""What the head of every page leads to, in its order: the name of a page, and the way to it from our root."""

PAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("start", ()),
    ("ops", ("ops",)),
    ("docs", ("docs",)),
    ("problems", ("problems",)),
)
