"""Texts as a database has them: which it cannot hold, and the keys of ids.

A database cannot hold NUL and halves of characters: nothing is found by such a name. Records have keys of 16 bytes: the
id itself where that is a UUID; ids of other origin, which imports bring, have a key that is made from them.
"""

import hashlib
import re
from uuid import UUID

is_uuid = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
is_hex = re.compile(r"[0-9a-f]{32}").fullmatch


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


def key_of(record_id: str) -> str:
    """The key of a record, as `key_of` of the database makes it."""
    if is_uuid(record_id):
        return record_id
    return str(UUID(bytes=hashlib.sha256(record_id.encode(errors="surrogatepass")).digest()[:16]))


def odd_name(record_id: str | None) -> str | None:
    """An id that is not its own key."""
    return None if record_id is None or is_uuid(record_id) else record_id
