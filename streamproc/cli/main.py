"""How every command ends: with its exit code, and on error with one line on standard error."""

from __future__ import annotations

import asyncio
import codecs
import functools
import io
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
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

STDOUT_POLL_S = 0.5
"""Seconds between two looks whether anybody still reads."""

_PLAIN = {"±": "+/-", "…": "...", "’": "'", "“": '"', "”": '"'}
"""What people see instead where standard output has no such signs."""


def run_command(command: click.Command, name: str) -> NoReturn:
    """Run `command` with the arguments of this process, and exit.

    With STREAMPROC_DEBUG=1 an error that is a bug shows its traceback as well.
    """
    install_signal_handlers()
    if not is_long_running():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which is said below
    _exit_on_broken_pipe()
    codecs.register_error("plain", _plain_signs)
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
        _print_error(_with_hint(error))
    except (click.Abort, KeyboardInterrupt):
        code = 130
        _print_error("interrupted")
    except (Exception, asyncio.CancelledError) as error:
        code = 1
        if os.environ.get("STREAMPROC_DEBUG") == "1":
            sys.stderr.writelines(_traceback(error))
        _print_error(_unexpected(error))
    sys.exit(code)


def _plain_signs(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _print_error(message: str) -> None:
    print(f"streamproc: {' '.join(message.split())}", file=sys.stderr)


def _with_hint(error: click.ClickException) -> str:
    message = error.format_message().removesuffix(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}: try '{error.ctx.command_path} --help'"
    return message


class _Output(io.FileIO):
    """Standard output. When its reader is gone the command ends, as one that SIGPIPE ends: quietly, and not with 0.

    Below whatever buffers and wraps it, since Click and Rich each have another end of their own for a pipe that is closed.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Once a write has failed, what is still buffered goes nowhere: Python would try again at its end, and complain."""
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                sys.exit(128 + signal.SIGPIPE)
            raise


def _exit_on_broken_pipe() -> None:
    given = sys.stdout
    if given is None:  # closed from the start
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif given is sys.__stdout__ and isinstance(given, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(given.fileno(), "wb", closefd=False)),
            encoding=given.encoding,
            errors=given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )


async def until_stdout_closes(work: Coroutine[Any, Any, None]) -> None:
    """Do it, unless the reader of standard output goes away before: who only waits does not meet that by writing."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if _stdout_is_closed():
                sys.exit(128 + signal.SIGPIPE)
            await asyncio.wait([task], timeout=STDOUT_POLL_S)
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


def _stdout_is_closed() -> bool:
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return False  # it is no file
    asked = select.poll()
    asked.register(output, 0)  # nothing but errors and hang-ups, which are always told
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _unexpected(error: BaseException) -> str:
    """Where it happened, but not what the exception says: that may quote somebody's data."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"the system refused: {error.strerror}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(frame.filename).parents]
    where = f" in {Path(frames[-1].filename).relative_to(_PACKAGE.parent)}, line {frames[-1].lineno}" if frames else ""
    return f"this is a bug ({type(error).__name__}{where}): please report it with what STREAMPROC_DEBUG=1 shows"


def _traceback(error: BaseException) -> Iterator[str]:
    """Where it happened and what led there, line by line, but not what the exceptions say."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _traceback(earlier)
        yield "which led to:\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}: (left out, it may quote somebody's data)\n"
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _traceback(each)


_COMMANDS = {str(command.name): command for command in COMMANDS}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = copy(_COMMANDS[cmd_name])
        command.callback = _in_checked_environment(command.callback)
        return command


def _in_checked_environment(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """The callback of a command, run after the environment is checked.

    Click calls it after it has parsed the command's arguments, so `--help` works in every environment.
    """
    assert callback is not None

    @functools.wraps(callback)
    def checked(*arguments: Any, **options: Any) -> Any:
        check_environment(os.environ)
        return callback(*arguments, **options)

    return checked


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


def main() -> NoReturn:
    """Run the command that the arguments name."""
    run_command(streamproc, "streamproc")
