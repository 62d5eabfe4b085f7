"""What the head of every page leads to, in its order: the name of a page, and the way to it from our root."""

PAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("start", ()),
    ("jobs", ("jobs",)),
    ("errors", ("errors",)),
    ("inbox", ("inbox",)),
    ("ops", ("ops",)),
    ("docs", ("docs",)),
    ("problems", ("problems",)),
)
#: What follows `g` on the keyboard, by page.
KEYS = {
    "start": "s", "jobs": "j", "errors": "e", "inbox": "i", "ops": "o", "docs": "d", "problems": "c",
}  # fmt: skip
