"""The directive `commands`: the help of every command, as the command line prints it."""

from __future__ import annotations

from typing import Any

import click
import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Commands(SphinxDirective):
    """A section for each command, groups before their members."""

    def run(self) -> list[nodes.Node]:
        """The sections."""
        from cophenet.cli import app

        return list(self._sections(typer.main.get_command(app), None))

    def _sections(self, command: Any, parent: click.Context | None) -> list[nodes.Node]:
        name = "cophenet" if parent is None else command.name
        context = click.Context(command, info_name=name, parent=parent, max_content_width=90)
        title = context.command_path
        section = nodes.section(ids=[title.replace(" ", "-")], names=[title])
        section += nodes.title(title, title)
        text = command.get_help(context)
        section += nodes.literal_block(text, text, language="none")
        parts: list[nodes.Node] = [section]
        for member in getattr(command, "commands", {}).values():
            if not member.hidden:
                parts += self._sections(member, context)
        return parts


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
