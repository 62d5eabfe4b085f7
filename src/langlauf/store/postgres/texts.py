"""Texts that a database cannot hold: NUL, and halves of characters. Nothing is found by such a name."""


def holdable(text: str) -> bool:
    """Whether a row could hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def name_of(text: str) -> str | None:
    """What to look for; nothing is equal to a null."""
    return text if holdable(text) else None
