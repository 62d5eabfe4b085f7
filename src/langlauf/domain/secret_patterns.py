"""Patterns of secrets: names that announce one, and shapes that are one whatever stands before them.

Names are matched against lower-case text. Each family says what a value must look like to count as a secret: almost
anything after `password=`, but only something random after `auth:`.

Every pattern starts with literal letters, one of which (`signs`) must be in the lower-case text, has no part that can
match in two ways, and takes a bounded number of steps from each start. So the time is linear in the length of the text.
"""
# ruff: noqa: E501 - a pattern reads best on one line

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

Family = Literal["phrase", "password", "token", "drawn", "pin", "word"]


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern. All of them at once would take a tenth of the start of every process."""
    return re.compile(pattern)


def _apart(*names: str) -> list[str]:
    """Return patterns of names with no letter before or after them."""
    return [f"{name}(?<![a-z]{name})(?![a-z])" for name in names]


def _of(name: str, *owners: str) -> list[str]:
    """Return patterns of a short name that counts after one of these only."""
    return [f"{name}(?<={owner}{name})(?![a-z])" for owner in owners]


_OWNERS_OF_KEYS = (
    "access", "account", "api", "app", "application", "auth", "client", "consumer", "deploy", "encryption", "license",
    "master", "private", "recovery", "secret", "service", "session", "shared", "sharedaccess", "shared[ _-]access",
    "signing", "ssh", "storage", "subscription", "webhook",
)  # fmt: skip
_JOINED = ("api", "access", "private")

_NAMES: dict[Family, list[str]] = {
    # These have spaces: all of the line is the value.
    "phrase": [
        r"pass[ _-]?phrase",
        *(rf"{word}[ _-]phrase" for word in ("seed", "recovery", "mnemonic")),
        r"mnemonic(?![a-z])",
    ],
    # Any value of these is a secret.
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
    # Words of prose are not secrets after these.
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
    # Only random values of these are secrets.
    "drawn": [
        r"sess(?:ion)?[_-]?id(?![a-z])",
        *_apart("auth", "jwt", "pat", "cred", "creds", "sig", "signature", "hmac", "nonce", "session", "sid"),
    ],
    # Only a few digits are secrets after these.
    "pin": [
        *_apart("pin", "otp", "totp", "tan", "cvv", "cvc"),
        *(rf"{what}[ _-]code(?![a-z])" for what in ("mfa", "2fa", "security", "verification", "one-time")),
    ],
    # Also an ordinary word.
    "word": _apart("pass"),
}
_FAMILIES: list[tuple[Family, str]] = [(family, "|".join(_NAMES[family])) for family in _NAMES]
#: Any of the names.
NAME = "|".join(name for names in _NAMES.values() for name in names)
_OF_FIELDS = "|".join(_NAMES["phrase"] + _NAMES["password"] + _NAMES["token"])
#: What follows such a word and makes it the name of something else.
_ABOUT = (
    r"[ _.-]?(?:s[ _.-]?)?(?:types?|counts?|counter|ids?|len|length|limits?|budget|usage|used|sizes?|expiry|expires|"
    r"expiration|expired|ttl|lifetime|age|max|min|rate|index|files?|path|dir|policy|field|label|hint|names?|namespace|url|uri|endpoint|version|"
    r"rotation|strength|status|valid|enabled|required|per|total|consent|banner|jar)(?![a-z])"
)
#: A text is examined further only if one of these is in it, in lower case.
SIGNS = (
    "pass", "kennwort", "contrase", "pw", "psk", "mnemonic", "phrase", "key", "secret", "token", "credential", "auth",
    "cookie", "jwt", "pat", "cred", "sig", "hmac", "nonce", "sess", "sid", "pin", "otp", "tan", "cvv", "cvc", "code",
)  # fmt: skip


def family_of(low: str, start: int) -> Family:
    """Return the family of the name that was found here."""
    return next(family for family, pattern in _FAMILIES if compiled(pattern).match(low, start))


def is_about(low: str, end: int) -> bool:
    """Whether the word that ends here goes on as the name of something else, such as `token_count`."""
    return compiled(_ABOUT).match(low, end) is not None


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is probably a secret; in a longer text, whether such a name is in it."""
    low = name.lower()
    return any(not is_about(low, found.end()) for found in compiled(_OF_FIELDS).finditer(low))


MASK = "[redacted]"
Replacement = str | Callable[[re.Match[str]], str]


class SecretPattern(NamedTuple):
    """One kind of secret: the words that announce it, its pattern, and its replacement."""

    signs: tuple[str, ...]
    pattern: str
    replacement: Replacement = MASK

    def mask(self, text: str) -> str:
        """Return the text without this kind of secret."""
        return compiled(self.pattern).sub(self.replacement, text)


#: Tokens of services: prefix and rest. If the prefix is a word, the rest must have a digit.
_PREFIXED: tuple[tuple[str, str], ...] = (
    ("AKIA", "[0-9A-Z]{16}"),
    ("ASIA", "[0-9A-Z]{16}"),
    ("ABIA", "[0-9A-Z]{16}"),
    ("LTAI", "[0-9A-Za-z]{12,30}"),
    ("AIza", r"[\w-]{30,45}"),
    ("GOCSPX-", r"[\w-]{20,40}"),
    ("ya29.", r"[\w-]{20,2000}"),
    ("ghp_", "[0-9A-Za-z]{20,255}"),
    ("gho_", "[0-9A-Za-z]{20,255}"),
    ("ghu_", "[0-9A-Za-z]{20,255}"),
    ("ghs_", "[0-9A-Za-z]{20,255}"),
    ("ghr_", "[0-9A-Za-z]{20,255}"),
    ("github_pat_", r"\w{20,255}"),
    ("glpat-", r"[\w.-]{16,300}"),
    ("gldt-", r"[\w-]{16,100}"),
    ("glrt-", r"[\w.-]{16,100}"),
    ("glptt-", r"[\w-]{16,100}"),
    ("glsoat-", r"[\w-]{16,100}"),
    ("glcbt-", r"[\w-]{16,100}"),
    ("glagent-", r"[\w-]{16,100}"),
    ("xoxb-", r"[\w-]{10,255}"),
    ("xoxp-", r"[\w-]{10,255}"),
    ("xoxa-", r"[\w-]{10,255}"),
    ("xoxr-", r"[\w-]{10,255}"),
    ("xoxs-", r"[\w-]{10,255}"),
    ("xoxe-", r"[\w-]{10,255}"),
    ("xoxe.xoxp-", r"[\w-]{10,255}"),
    ("xapp-", r"[\w-]{10,255}"),
    ("sk_live_", r"\w{8,255}"),
    ("sk_test_", r"\w{8,255}"),
    ("rk_live_", r"\w{8,255}"),
    ("rk_test_", r"\w{8,255}"),
    ("sk_", r"(?=[a-z_]{0,60}[0-9A-Z])[A-Za-z0-9+/=_-]{8,255}"),
    ("sk-", r"(?=[A-Za-z_-]{0,80}\d)[\w-]{12,300}"),
    ("whsec_", "[A-Za-z0-9+/=_-]{8,255}"),
    ("SG.", r"[\w-]{16,32}\.[\w-]{16,64}"),
    ("npm_", "(?=[A-Za-z]{0,40}[0-9])[0-9A-Za-z]{30,64}"),
    ("pypi-", r"AgE[\w-]{30,400}"),
    ("hf_", "[A-Za-z0-9]{24,64}"),
    ("dop_v1_", "[0-9a-f]{32,128}"),
    ("doo_v1_", "[0-9a-f]{32,128}"),
    ("dor_v1_", "[0-9a-f]{32,128}"),
    ("shpat_", "[0-9A-Fa-f]{24,64}"),
    ("shpss_", "[0-9A-Fa-f]{24,64}"),
    ("shpca_", "[0-9A-Fa-f]{24,64}"),
    ("shppa_", "[0-9A-Fa-f]{24,64}"),
    ("dapi", "[0-9a-f]{32}(?:-[0-9]{1,2})?"),
    ("sq0atp-", r"[\w-]{16,64}"),
    ("sq0csp-", r"[\w-]{16,64}"),
    ("lin_api_", "[0-9A-Za-z]{24,64}"),
    ("ntn_", "[0-9A-Za-z]{24,64}"),
    ("figd_", r"[\w-]{24,64}"),
    ("PMAK-", "[0-9a-f-]{24,80}"),
    ("NRAK-", "[0-9A-Z]{20,40}"),
    ("glsa_", r"\w{24,64}"),
    ("glc_", "[A-Za-z0-9+/=]{32,400}"),
    ("hvs.", r"[\w-]{20,300}"),
    ("hvb.", r"[\w-]{20,400}"),
    ("ATATT3", r"[\w=-]{24,300}"),
    ("ATBB", r"(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{24,64}"),
    ("AGE-SECRET-KEY-1", "[0-9A-Z]{20,80}"),
    ("rubygems_", "[0-9a-f]{32,64}"),
    ("dckr_pat_", r"[\w-]{20,64}"),
    ("pul-", "[0-9a-f]{32,64}"),
    ("sbp_", "[0-9a-f]{32,64}"),
    ("sntrys_", "[A-Za-z0-9+/=_]{24,400}"),
    ("sntryu_", "[0-9a-f]{32,80}"),
    ("r8_", "[0-9A-Za-z]{24,64}"),
    ("gsk_", "[0-9A-Za-z]{24,80}"),
    ("xai-", "[0-9A-Za-z]{24,120}"),
    ("pplx-", "[0-9A-Za-z]{24,80}"),
    ("nvapi-", r"[\w-]{24,120}"),
    ("lsv2_pt_", r"\w{24,80}"),
    ("lsv2_sk_", r"\w{24,80}"),
    ("CCIPAT_", r"\w{24,100}"),
    ("shippo_live_", "[0-9a-f]{24,64}"),
    ("pscale_tkn_", r"[\w.-]{24,80}"),
    ("pscale_pw_", r"[\w.-]{24,80}"),
    ("pnu_", "[0-9A-Za-z]{24,64}"),
    ("tfp_", r"[\w.-]{30,80}"),
    ("dt0c01.", r"[0-9A-Z]{20,30}\.[0-9A-Z]{40,80}"),
    ("dp.pt.", "[0-9A-Za-z]{24,64}"),
    ("sgp_", r"\w{32,100}"),
    ("EAAC", "[0-9A-Za-z]{30,300}"),
    ("key-", "[0-9a-f]{32}"),
    # The id of an API key is public; anything longer is a secret.
    ("llk_", r"[A-Za-z0-9._-]{20,1100}"),
    ("lls_", r"[A-Za-z0-9._-]{20,1100}"),
    ("llt_", r"[A-Za-z0-9._-]{20,1100}"),
)


def _prefixed(prefix: str, rest: str) -> SecretPattern:
    return SecretPattern((prefix.lower(),), rf"(?<![A-Za-z0-9]){re.escape(prefix)}{rest}")


#: Words before `:` in a URL that are not users: they announce a mail address, a package or an image.
_NO_USERS = frozenset(
    re.findall(
        r"\S+",
        "mailto email e-mail mail from to cc bcc user username login contact reply-to sip sips acct xmpp owner author "
        "pkg npm docker image http https",
    )
)
_MAIL_NAME = re.compile(r"[\w.+-]+")
_MAIL_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+", re.ASCII)
_VERSION = re.compile(r"v?\d+(?:\.\d+){0,2}(?![\w.])|sha\d{3}(?![\w.])|latest(?![\w.])", re.ASCII)


def _bare_login(found: re.Match[str]) -> str:
    """Mask `user:password@host` without a scheme, unless it is a mail address after a word, or a version."""
    user, password, host = found.group(1), found.group(2), found.group(3)
    if _VERSION.match(host):
        return found.group()
    if _MAIL_NAME.fullmatch(password):
        plain = password.replace(".", "").isalpha()
        if user.lower() in _NO_USERS or (plain and _MAIL_HOST.fullmatch(host)):
            return found.group()
    return f"{user}:{MASK}@{host}"


#: Random, not a word: a digit, inner capitals, or base64 padding.
_DRAWN = r"(?=[^\s'\",;]{0,60}?(?:\d|[a-z][A-Z]|=))"

SECRET_PATTERNS: tuple[SecretPattern, ...] = (
    SecretPattern(
        ("private key",),
        # A truncated token is a secret as well.
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{1,60}-----|\Z)",
    ),
    SecretPattern(("putty-user-key-file",), r"(Private-Lines: \d{1,4}\s)(?:[A-Za-z0-9+/=]{1,64}\s?)+", rf"\1{MASK}"),
    *(_prefixed(*one) for one in _PREFIXED),
    SecretPattern(("eyj",), r"(?<![\w-])eyJ[\w-]{8,20000}+\.[\w-]{8,40000}+(?:\.[\w-]*+){0,3}"),
    SecretPattern(("1//0",), r"(?<![\w/:])1//0[\w-]{24,120}"),
    SecretPattern((":aa",), r"(?<![\w])\d{8,10}:AA[\w-]{30,40}(?![\w-])"),
    SecretPattern(("-us",), r"(?<![0-9A-Za-z])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    SecretPattern(("sk",), r"(?<![0-9A-Za-z])SK[0-9a-f]{32}(?![0-9a-f])"),
    SecretPattern(("q~",), r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    SecretPattern(("access-",), r"access-(?:sandbox|development|production)-[0-9a-f-]{36}"),
    SecretPattern(
        ("hooks.slack.com", "discord", "webhook.office.com", "api.telegram.org"),
        (
            r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/\d{5,25}/"
            r"|webhook\.office\.com/webhookb2/|api\.telegram\.org/bot)[\w@:%/.-]{8,300}"
        ),
        rf"\1{MASK}",
    ),
    SecretPattern(("$",), r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{22,53}|[156y]\$[^\s:$'\",]{1,40}\$[^\s:'\",]{8,120}|argon2i?d?\$[^\s:'\"]{8,200})"),
    SecretPattern(("sha}",), r"(\{S?SHA\})[A-Za-z0-9+/=]{20,100}", rf"\1{MASK}"),
    SecretPattern(
        ("://",),
        # A password may contain an @, and a slash if no port precedes it.
        r"(\w://[^\s:/?#@'\"<>]{0,100}+):(?:[^\s/?#'\"<>]{0,300}@|(?!\d{1,5}/)[^\s'\"<>@]{1,300}@)",
        rf"\1:{MASK}@",
    ),
    SecretPattern(("://",), r"(\w://)(?=[A-Za-z_-]{0,60}\d)[\w-]{16,128}@", rf"\1{MASK}@"),
    SecretPattern(
        ("@",),
        r"(?<![\w:/@.%+-])([A-Za-z][\w.-]{0,63}+):(?!//)([^\s:@'\"<>,;(){}\[\]]{3,128}+)@([A-Za-z0-9][\w.-]{0,100})",
        _bare_login,
    ),
    SecretPattern(("bearer",), r"(?i)(\bbearer['\"]?\s{1,4}['\"]?)(?!auth|credential|certificate|instrument|securit|scheme)[a-z0-9._~+/=-]{8,}", rf"\1{MASK}"),
    SecretPattern(("basic",), rf"(?i:(\bbasic\s{{1,4}})){_DRAWN}[A-Za-z0-9+/=_-]{{8,}}", rf"\1{MASK}"),
    SecretPattern(
        ("key=", "sig=", "code=", "signature=", "credential="),
        r"(?i)((?:[?&;]|%26|%3f)(?:key|sig|signature|code|x-(?:amz|goog)-(?:signature|credential))=)(?:[^\s&#'\"]{8,}|(?=[a-z]{0,6}\d)(?!\d+(?![^\s&#'\"]))[^\s&#'\"]{6,})",
        rf"\1{MASK}",
    ),
    SecretPattern(("identified",), r"(?i)(\bidentified\s{1,4}(?:with\s{1,4}\w{1,40}\s{1,4})?by\s{1,4}(?:password\s{1,4})?)('[^'\n]{1,200}'|\"[^\"\n]{1,200}\")", rf"\1{MASK}"),
    SecretPattern(
        ("-u", "--user", "--proxy-user"),
        r"((?<![\w-])(?:-u\s{0,2}|--(?:proxy-)?user[ =])['\"]?[\w.@-]{1,64}+):([^\s'\"]{1,200})",
        rf"\1:{MASK}",
    ),
    SecretPattern(("sshpass", "mysql", "mariadb"), r"(\b(?:sshpass|mysql(?:dump|admin)?|mariadb(?:-dump)?)\b[^\n|;&]{0,120}? -p\s?)(?!\[redacted\])('[^'\n]{1,100}'|\"[^\"\n]{1,100}\"|[^\s'\"-][^\s'\"]{0,100})", rf"\1{MASK}"),
    SecretPattern(("pass ", "auth "), r"(?m)(^(?:(?:>>> |> |C: )PASS|(?:>>> |> |C: )?AUTH(?: PLAIN| LOGIN)?) )(?!\[redacted\])(\S{4,200})$", rf"\1{MASK}"),
    SecretPattern((":5432:", ":*:"), r"((?<![\w.])[\w.*-]{1,100}:(?:5432|\*):[\w*-]{1,60}:[\w*.-]{1,60}):[^\s:]{1,100}", rf"\1:{MASK}"),
)  # fmt: skip
