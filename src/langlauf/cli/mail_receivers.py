"""`langlauf mail`: whom an org may write to, and who has unsubscribed, in the store, also beside a running server."""

from typing import Any

import click

from langlauf.cli.printing import note, print_json, print_table
from langlauf.cli.webhook_desk import at_store, common, shown
from langlauf.domain.instant import to_datetime
from langlauf.domain.mail_rules import MailMark, Mark
from langlauf.service.mail_receivers import MailReceivers

_address = click.argument("address", metavar="ADDRESS")


@click.group("mail")
def mail() -> None:
    """Receivers of an org's mail: the list of those who may be written to, and who has unsubscribed."""


@mail.command("allow")
@_address
@common
def allow(address: str, **flags: Any) -> None:
    """Put an address on the org's list. With LANGLAUF_MAIL_ONLY_LISTED, mail goes to the list alone."""
    changed = _change(address, "allowed", flags, wanted=True)
    _tell(address, flags, "may be written to." if changed else "was on the list already.", changed=changed)


@mail.command("remove")
@_address
@common
def remove(address: str, **flags: Any) -> None:
    """Take an address off the org's list."""
    changed = _change(address, "allowed", flags, wanted=False)
    _tell(address, flags, "is no longer on the list." if changed else "was not on the list.", changed=changed)


@mail.command("unsubscribe")
@_address
@common
def unsubscribe(address: str, **flags: Any) -> None:
    """Send no more mail of the org to an address, as its owner asked."""
    changed = _change(address, "unsubscribed", flags, wanted=True)
    _tell(address, flags, "gets no more mail." if changed else "had unsubscribed already.", changed=changed)


@mail.command("subscribe")
@_address
@common
def subscribe(address: str, **flags: Any) -> None:
    """Send mail of the org to an address again that had unsubscribed, as its owner asked."""
    changed = _change(address, "unsubscribed", flags, wanted=False)
    _tell(address, flags, "gets mail again." if changed else "had not unsubscribed.", changed=changed)


@mail.command("list")
@common
def list_(**flags: Any) -> None:
    """List the addresses that may be written to, and those that have unsubscribed."""
    listed: list[MailMark] = at_store(lambda store, settings, org: MailReceivers(store, settings).marks(org), flags)
    if flags["as_json"]:
        print_json([{"address": one.address, "mark": one.mark, "at": to_datetime(one.at)} for one in listed])
        return
    if not listed:
        note("No address is on the list, and none has unsubscribed.")
        return
    print_table(("ADDRESS", "MARK", "SINCE"), [(one.address, one.mark, shown(one.at)) for one in listed])


def _change(address: str, mark: Mark, flags: dict[str, Any], *, wanted: bool) -> bool:
    async def use(receivers: MailReceivers, org: str) -> bool:
        return await (receivers.mark if wanted else receivers.unmark)(org, address, mark)

    return at_store(lambda store, settings, org: use(MailReceivers(store, settings), org), flags)


def _tell(address: str, flags: dict[str, Any], said: str, *, changed: bool) -> None:
    if flags["as_json"]:
        print_json({"address": address.lower(), "changed": changed})
    else:
        note(f"{address.lower()} {said}")
