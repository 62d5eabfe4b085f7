"""The texts of `--help`: every list of commands can be read to the end."""

import click
import pytest

from langlauf.cli.main import main


def _groups(command: click.Command, path: str) -> list[tuple[str, click.Group]]:
    if not isinstance(command, click.Group):
        return []
    context = click.Context(command)
    inner = [command.get_command(context, name) for name in command.list_commands(context)]
    return [(path, command), *(found for one in inner if one for found in _groups(one, f"{path} {one.name}"))]


@pytest.mark.parametrize(("path", "group"), _groups(main, "langlauf"), ids=lambda one: getattr(one, "name", one))
def test_no_sentence_of_a_list_is_cut(path: str, group: click.Group) -> None:
    """In a terminal of 80 columns."""
    text = group.get_help(click.Context(group, info_name=path, terminal_width=80))
    assert [line for line in text.splitlines() if line.endswith("...") and "[ARGS]" not in line] == []
