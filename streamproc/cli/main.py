"""The command `streamproc`: finds the command that the arguments name, runs it, and exits.

Errors of all commands are handled here: each has an exit code and is printed as one line on standard error.
"""

from __future__ import annotations

import asyncio
import codecs
import functools
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from streamproc.cli.declarations import COMMANDS
from streamproc.cli.signals import install_signal_handlers, is_long_running
from streamproc.errors import StreamprocError
from streamproc.storage.environment import check_environment

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PACKAGE = Path(__file__).parents[1]
_COMMANDS = {str(command.name): command for command in COMMANDS}

_ASCII_REPLACEMENTS = {"±": "+/-", "…": "...", "’": "'", "“": '"', "”": '"'}
"""What is printed instead of a character that the encoding of standard output lacks."""

# The commands


class _CommandGroup(click.Group):
    """Lists the commands in the order of their declaration, and checks the environment before one runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = copy(_COMMANDS[cmd_name])
        command.callback = _in_checked_environment(command.callback)
        return command


def _in_checked_environment(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a callback that checks the environment and then calls `callback`.

    Click calls it after it has parsed the command's arguments, so `--help` works in every environment.
    """
    assert callback is not None

    @functools.wraps(callback)
    def checked(*arguments: Any, **options: Any) -> Any:
        check_environment(os.environ)
        return callback(*arguments, **options)

    return checked


@click.group(cls=_CommandGroup, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


def main() -> NoReturn:
    """Run the command that the arguments name, and exit."""
    run_command(streamproc, "streamproc")


def run_command(command: click.Command, name: str) -> NoReturn:
    """Run `command` with the arguments of this process, and exit with its exit code.

    With STREAMPROC_DEBUG=1 an error that is a bug also prints its traceback.
    """
    install_signal_handlers()
    if not is_long_running():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # raises KeyboardInterrupt, which is handled below
    _exit_on_broken_pipe()
    codecs.register_error("plain", _replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")
    try:
        code = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except StreamprocError as error:
        code = error.exit_code
        _print_error(str(error))
    except click.ClickException as error:
        code = 2
        _print_error(_describe_usage_error(error))
    except (click.Abort, KeyboardInterrupt):
        code = 130
        _print_error("interrupted")
    except (Exception, asyncio.CancelledError) as error:
        code = 1
        if os.environ.get("STREAMPROC_DEBUG") == "1":
            sys.stderr.writelines(_traceback_lines(error))
        _print_error(_describe_unexpected(error))
    sys.exit(code)


# Errors as text. Messages of unexpected exceptions are never printed, because they may quote somebody's data.


def _print_error(message: str) -> None:
    print(f"streamproc: {' '.join(message.split())}", file=sys.stderr)


def _describe_usage_error(error: click.ClickException) -> str:
    message = error.format_message().removesuffix(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}: try '{error.ctx.command_path} --help'"
    return message


def _describe_unexpected(error: BaseException) -> str:
    """Return the type of the exception and where in this package it was raised, without its message."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"the system refused: {error.strerror}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(frame.filename).parents]
    where = f" in {Path(frames[-1].filename).relative_to(_PACKAGE.parent)}, line {frames[-1].lineno}" if frames else ""
    return f"this is a bug ({type(error).__name__}{where}): please report it with what STREAMPROC_DEBUG=1 shows"


def _traceback_lines(error: BaseException) -> Iterator[str]:
    """Yield the lines of a traceback, with those of its causes first, but without the messages of the exceptions."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _traceback_lines(earlier)
        yield "which led to:\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}: (left out, it may quote somebody's data)\n"
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _traceback_lines(each)


# Standard output


class _Stdout(io.FileIO):
    """Standard output that ends the process quietly, with the exit code of SIGPIPE, when its reader is gone.

    It is below all buffers and wrappers, because Click and Rich each handle a closed pipe in their own way.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, and after a failure discard everything else: Python would flush again at exit, and print an error."""
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                sys.exit(128 + signal.SIGPIPE)
            raise


def _exit_on_broken_pipe() -> None:
    """Replace standard output by one that ends the process when its reader is gone."""
    original = sys.stdout
    if original is None:  # the process was started with standard output closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif original is sys.__stdout__ and isinstance(original, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Stdout(original.fileno(), "wb", closefd=False)),
            encoding=original.encoding,
            errors=original.errors,
            line_buffering=original.line_buffering,
            write_through=original.write_through,
        )


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Error handler for `codecs.register_error`: spell out the characters that the encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    characters = error.object[error.start : error.end]
    return "".join(_ASCII_REPLACEMENTS.get(character, "?") for character in characters), error.end
