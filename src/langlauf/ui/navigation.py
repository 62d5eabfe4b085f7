"""What the head of every page leads to, in its order: the name of a page, and the way to it from our root."""

PAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("start", ()),
    ("jobs", ("jobs",)),
    ("errors", ("errors",)),
    ("inbox", ("inbox",)),
    ("webhooks", ("webhooks",)),
    ("ops", ("ops",)),
    ("docs", ("docs",)),
    ("problems", ("problems",)),
)
#: What a reader must be allowed to do for a page to be offered, where that is more than reading.
NEEDS = {"webhooks": "admin"}
#: What follows `g` on the keyboard, by page.
KEYS = {
    "start": "s", "jobs": "j", "errors": "e", "inbox": "i", "webhooks": "w", "ops": "o", "docs": "d", "problems": "c",
}  # fmt: skip
