"""What addresses of lists are made of, and how far the figures beside them are counted."""

#: Parameters that say what is listed, and where; a change of language keeps them.
FILTERS = ("status", "analysis", "error", "q", "range", "at", "trail", "do", "job", "group")
#: Beyond so many it says that there are more.
MOST_UNREAD = 99
MOST_COUNTED = 10_000
