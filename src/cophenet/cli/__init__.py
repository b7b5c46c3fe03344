"""The command line: parse arguments, call the library, print results. One file per group of commands.

Commands import the subpackages that they call only when they run, so that `--help` is fast.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

from cophenet._common.checks import DivergenceError, argument_of, escaped
from cophenet.cli import (
    compare,
    data,
    embed,
    evaluate,
    measure,
    recipes,
    report,
    reproduce,
    study,
    train,
    tree,
    warm_up,
)
from cophenet.cli.options import VectorsCommand

__all__ = ["app", "main"]

# A missing path that the user gave is wrong input; a full disk is not.
_WRONG_INPUT = (ValueError, FileNotFoundError, NotADirectoryError, IsADirectoryError)

app = typer.Typer(
    name="cophenet",
    help="""Teach networks the shape of a label tree. Add --debug to any command to see the full traceback.

    Example: cophenet train && cophenet evaluate runs/digits-fastft
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("train")(train.train)
app.command("recipes")(recipes.recipes)
app.command("evaluate")(evaluate.evaluate)
app.command("measure", cls=VectorsCommand)(measure.measure)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("embed", cls=VectorsCommand)(embed.embed)
app.command("predict", cls=VectorsCommand)(embed.predict)
app.command("search", cls=VectorsCommand)(embed.search)
app.command("study")(study.study)
app.command("reproduce")(reproduce.reproduce)
app.command("warm-up")(warm_up.warm_up)
app.add_typer(data.app, name="data")
app.add_typer(tree.app, name="tree")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; each error or warning is one line on stderr.

    The exit code is 2 for wrong input and 1 for other errors.

    Args:
        argv: Arguments; None for those of the process.

    Raises:
        SystemExit: Always, with the exit code.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = _show_warning
            _command()([argument for argument in given if argument != "--debug"], prog_name="cophenet")
    except Exception as error:
        if debug:
            raise
        typer.echo(escaped(_one_line(error, given)), err=True)
        raise SystemExit(2 if isinstance(error, _WRONG_INPUT) else 1) from None


@cache
def _command() -> Any:
    """The commands and their options, cached because typer builds them anew on each call."""
    return typer.main.get_command(app)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(escaped(f"warning: {' '.join(str(message).split())}"), err=True)


def _one_line(error: Exception, given: Sequence[str]) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"error: {error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    argument = argument_of(error)
    if argument is not None and (option := _option_of(argument, given)) is not None:
        text = option + text.removeprefix(argument)
    if isinstance(error, (ValueError, OSError, ImportError, DivergenceError)):
        return f"error: {text}"
    return f"error: unexpected {type(error).__name__}: {text} (--debug shows where)"


def _option_of(argument: str, given: Sequence[str]) -> str | None:
    """The option of the given command that sets an argument, such as "--seeds"; None if there is none."""
    command = _command()
    for word in given:
        command = getattr(command, "commands", {}).get(word, command)
    names = [name for one in command.params if one.name == argument for name in one.opts]
    return max(names, key=len, default=None)


def _version(wanted: bool) -> None:
    if wanted:
        import cophenet

        typer.echo(f"cophenet {cophenet.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    _ = version
