"""One e-mail address, as a request may name it: the plain form that every mail server takes, and nothing else.

No names beside it, no lists, no quotes, no comments and no characters beyond ASCII: what is left cannot carry a header
of its own into a mail. A domain in another script is written as `xn--…`.
"""

import re

LONGEST_MAIL_ADDRESS = 254
_LONGEST_LOCAL = 64
_WORD = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: The same for a document: what a receiver's own program may check before it asks.
MAIL_ADDRESS_PATTERN = rf"^{_WORD}(?:\.{_WORD})*@(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])$"
_ADDRESS = re.compile(MAIL_ADDRESS_PATTERN)


def read_mail_address(text: str) -> str:
    """The address as it was given; `ValueError` with what is wrong where it is none."""
    if len(text) > LONGEST_MAIL_ADDRESS:
        raise ValueError(f"must have at most {LONGEST_MAIL_ADDRESS} characters")
    if not _ADDRESS.fullmatch(text) or text.index("@") > _LONGEST_LOCAL:
        raise ValueError("must be one plain e-mail address, such as name@example.org")
    return text


def masked_mail_address(text: str) -> str:
    """An address for lists that others read: whose it is can be recognised, written to it cannot be."""
    local, _, domain = text.rpartition("@")
    return f"{local[:1]}…@{domain}"
