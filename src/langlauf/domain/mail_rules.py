"""Who may be written to by e-mail, and how often: the operator's rules, an org's list, and what receivers wish."""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.rate import Rate

#: `allowed` is the org's list of those who may be written to; `unsubscribed` is what a receiver said.
AddressMark = Literal["allowed", "unsubscribed"]
ADDRESS_MARKS: tuple[AddressMark, ...] = ("allowed", "unsubscribed")
#: Why a mail is not sent.
MailRefusal = Literal["unsubscribed", "unlisted", "domain", "org_rate", "address_rate"]
MAIL_REFUSALS: dict[MailRefusal, str] = {
    "unsubscribed": "the address has unsubscribed from mails of this org",
    "unlisted": "the address is not on the list of this org: add it with langlauf mail allow",
    "domain": "the domain of the address is not one that mail may go to: see LANGLAUF_MAIL_DOMAINS",
    "org_rate": "the org has sent as many mails as it may: see LANGLAUF_MAIL_RATE_PER_ORG",
    "address_rate": "the address has got as many mails of this org as it may: see LANGLAUF_MAIL_RATE_PER_ADDRESS",
}
_ANY_BELOW = "*."


class MailMark(msgspec.Struct, frozen=True):
    """What an org knows of an address. Fields are in the order of the table's columns."""

    org_id: str
    address: str
    mark: AddressMark
    at: Instant


class MailAdmission(msgspec.Struct, frozen=True, kw_only=True):
    """Asks whether a mail may go out now, and counts it."""

    org_id: str
    notification_id: str
    attempt: int
    #: as `normalized_address` spells it
    address: str
    #: whether it counts: a further try of a mail that was let out before does not
    counted: bool
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


class MailRules(msgspec.Struct, frozen=True):
    """What the operator says about receivers of mail."""

    #: none where mail may go to any
    domains: tuple[str, ...]
    #: whether mail goes to the list of its org alone
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


def normalized_address(address: str) -> str:
    """The one spelling of an address: who unsubscribed has done so for all of them."""
    return address.lower()


def domain_allowed(address: str, domains: Sequence[str]) -> bool:
    """Whether mail may go to the domain of an address; where none is named it may go to any."""
    domain = normalized_address(address).rpartition("@")[2]
    return not domains or any(
        domain.endswith(one[1:]) if one.startswith(_ANY_BELOW) else domain == one for one in domains
    )


def mail_refusal(marks: Collection[str], *, only_listed: bool) -> MailRefusal | None:
    """What an org knows of an address that keeps mail from it."""
    if "unsubscribed" in marks:
        return "unsubscribed"
    return "unlisted" if only_listed and "allowed" not in marks else None
