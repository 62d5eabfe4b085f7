"""Names that secrets go by, in texts and as names of fields: one list for both.

Matched against lower-case text. Each family says what a value must look like before it counts as a secret: almost
anything behind `password=`, but only something that was drawn by chance behind `auth:`. Every name begins with letters
as they are, and what may not stand before it is looked at afterwards: so a long text is looked through quickly.
"""

import re
from typing import Literal

Family = Literal["phrase", "password", "token", "drawn", "pin", "word"]


def _apart(*names: str) -> list[str]:
    """Names that count where no letter stands before or behind them."""
    return [f"{name}(?<![a-z]{name})(?![a-z])" for name in names]


def _of(name: str, *owners: str) -> list[str]:
    """A short name that counts behind one of these."""
    return [f"{name}(?<={owner}{name})(?![a-z])" for owner in owners]


_OWNERS_OF_KEYS = (
    "access", "account", "api", "app", "application", "auth", "client", "consumer", "deploy", "encryption", "license",
    "master", "private", "recovery", "secret", "service", "session", "shared", "sharedaccess", "shared[ _-]access",
    "signing", "ssh", "storage", "subscription", "webhook",
)  # fmt: skip
_JOINED = ("api", "access", "private")

_NAMES: dict[Family, list[str]] = {
    # These have spaces in them: all of the line counts.
    "phrase": [
        r"pass[ _-]?phrase",
        *(rf"{word}[ _-]phrase" for word in ("seed", "recovery", "mnemonic")),
        r"mnemonic(?![a-z])",
    ],
    # Anything that stands behind these is a secret.
    "password": [
        r"passw(?:or[dt]s?|ds?)",
        "kennwort",
        "contrase[nñ]a",
        "passcode",
        r"pass[_-]?key",
        *_apart("oldpwd", "pwd", "pw", "psk"),
        *_of("pwd", "db", "user"),
        *_of("pass", "[_-]", "db", "user", "smtp", "ldap", "root", "admin", "redis", "ftp"),
    ],
    # Words of prose are no secrets behind these.
    "token": [
        r"secret(?!ar|ion|ly|ive)",
        *(rf"{owner}(?<![a-z]{owner})[ _.-]?keys?(?![a-z])" for owner in _OWNERS_OF_KEYS),
        *(rf"{owner}_?key(?![a-z])" for owner in _JOINED),
        r"token(?!i[zs])",
        "credential",
        "authorization",
        "cookie",
        "sharedaccesssignature",
    ],
    # Behind these only what was drawn by chance counts.
    "drawn": [
        r"sess(?:ion)?[_-]?id(?![a-z])",
        *_apart("auth", "jwt", "pat", "cred", "creds", "sig", "signature", "hmac", "nonce", "session", "sid"),
    ],
    # Behind these only a few digits count.
    "pin": [
        *_apart("pin", "otp", "totp", "tan", "cvv", "cvc"),
        *(rf"{what}[ _-]code(?![a-z])" for what in ("mfa", "2fa", "security", "verification", "one-time")),
    ],
    # It also counts what has passed.
    "word": _apart("pass"),
}
_FAMILIES: list[tuple[Family, re.Pattern[str]]] = [(family, re.compile("|".join(_NAMES[family]))) for family in _NAMES]
#: A name, as far as it tells.
NAME = re.compile("|".join(name for names in _NAMES.values() for name in names))
_OF_FIELDS = re.compile("|".join(_NAMES["phrase"] + _NAMES["password"] + _NAMES["token"]))
#: What follows a telling word and makes a name of something else of it.
_ABOUT = re.compile(
    r"[ _.-]?(?:s[ _.-]?)?(?:types?|counts?|counter|ids?|len|length|limits?|budget|usage|used|sizes?|expiry|expires|"
    r"expiration|expired|ttl|lifetime|age|max|min|rate|index|files?|path|dir|policy|field|label|hint|names?|namespace|url|uri|endpoint|version|"
    r"rotation|strength|status|valid|enabled|required|per|total|consent|banner|jar)(?![a-z])"
)
#: Something is to be looked at more closely only where one of these stands in a text, in lower case.
SIGNS = (
    "pass", "kennwort", "contrase", "pw", "psk", "mnemonic", "phrase", "key", "secret", "token", "credential", "auth",
    "cookie", "jwt", "pat", "cred", "sig", "hmac", "nonce", "sess", "sid", "pin", "otp", "tan", "cvv", "cvc", "code",
)  # fmt: skip


def family_of(low: str, start: int) -> Family:
    """The family of the name that was found here."""
    return next(family for family, pattern in _FAMILIES if pattern.match(low, start))


def is_about(low: str, end: int) -> bool:
    """Whether a telling word that ends here goes on as the name of something else, such as `token_count`."""
    return _ABOUT.match(low, end) is not None


def is_secret_name(name: str) -> bool:
    """Whether something of this name is probably a secret; of a longer text, whether such a name is in it."""
    low = name.lower()
    return any(not is_about(low, found.end()) for found in _OF_FIELDS.finditer(low))
