"""Statements that this deployment made and can tell from any other: signed, readable, and never stored.

A statement is `<prefix><what it says>.<signature>`, in letters that need no escaping in an address. The signature is
over the text as it stands, so there is no second way to write the same statement.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
#: No statement of ours is longer; what is needs no further look.
LONGEST = 1_024


class Statements(Generic[T]):
    """Signs and reads statements of one kind. The prefix is part of what is signed: kinds cannot be mixed up."""

    def __init__(self, kind: type[T], prefix: str, secret: bytes) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._prefix = prefix
        self._secret = secret

    def write(self, statement: T) -> str:
        """The statement as text."""
        said = self._prefix + _text(msgspec.json.encode(statement))
        return f"{said}.{self._sign(said)}"

    def read(self, text: str) -> T | None:
        """The statement in a text that was signed here; None for any other text."""
        said, _, signature = text[:LONGEST].rpartition(".")
        expected = self._sign(said)
        # Always one signature and one comparison, whatever was sent.
        good = hmac.compare_digest(expected.encode(), signature.encode())
        if not good or len(text) > LONGEST or not said.startswith(self._prefix):
            return None
        try:
            return self._decoder.decode(base64.urlsafe_b64decode(_padded(said[len(self._prefix) :])))
        except (msgspec.MsgspecError, binascii.Error, ValueError):
            return None

    def _sign(self, said: str) -> str:
        return _text(hmac.digest(self._secret, said.encode(), hashlib.sha256))


def mark(secret: bytes, purpose: str, about: str) -> str:
    """A word that only this deployment can make about something, such as the form of a session."""
    return _text(hmac.digest(secret, f"{purpose} {about}".encode(), hashlib.sha256))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
