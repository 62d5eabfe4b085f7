"""The command `langlauf`."""

import click

from langlauf.cli.adopt import adopt
from langlauf.cli.backup import backup, restore
from langlauf.cli.bench import bench
from langlauf.cli.blobs import blobs
from langlauf.cli.cleanup import cleanup
from langlauf.cli.completion import completion
from langlauf.cli.control import cancel, retry
from langlauf.cli.copying import copy
from langlauf.cli.doctor import doctor
from langlauf.cli.erase import erase_org
from langlauf.cli.events import events
from langlauf.cli.follow import result, status, watch
from langlauf.cli.holding import hold, release
from langlauf.cli.keys import keys
from langlauf.cli.listing import inbox, jobs, notifications
from langlauf.cli.mail import mail_test
from langlauf.cli.mail_receivers import mail
from langlauf.cli.openapi import openapi
from langlauf.cli.serve import serve
from langlauf.cli.submit import submit
from langlauf.cli.transfer import export_store, import_store
from langlauf.cli.upkeep import migrate_store, sweep
from langlauf.cli.verify import verify
from langlauf.cli.webhooks import webhooks
from langlauf.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="langlauf")
def main() -> None:
    """Durable, observable jobs for functions that take their time."""


main.add_command(serve)
for command in (
    submit,
    status,
    watch,
    result,
    cancel,
    retry,
    jobs,
    events,
    hold,
    release,
    notifications,
    inbox,
    completion,
):
    main.add_command(command)
for command in (
    worker,
    cleanup,
    sweep,
    migrate_store,
    verify,
    import_store,
    export_store,
    erase_org,
    copy,
    adopt,
    openapi,
):
    main.add_command(command)
for command in (doctor, backup, restore):
    main.add_command(command)
main.add_command(blobs)
main.add_command(keys)
main.add_command(webhooks)
main.add_command(mail)
main.add_command(mail_test)
main.add_command(bench)
