"""The command line: every command, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import click

from streamproc.cli.plan import plan
from streamproc.cli.replay import replay
from streamproc.errors import StreamprocError

_PACKAGE = Path(__file__).parents[1]


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


streamproc.add_command(plan)
streamproc.add_command(replay)


def main() -> None:
    """Run a command; end with its exit code, and on error with one line on standard error.

    With STREAMPROC_DEBUG=1 an error that is a bug shows its traceback instead.
    """
    try:
        code = streamproc.main(prog_name="streamproc", standalone_mode=False)
        sys.stdout.flush()
    except StreamprocError as error:
        code = error.exit_code
        _complain(str(error))
    except click.ClickException as error:
        code = 2
        _complain(_with_hint(error))
    except (click.Abort, KeyboardInterrupt):
        code = 130
        _complain("interrupted")
    except BrokenPipeError:
        code = _reader_is_gone()
    except Exception as error:
        if os.environ.get("STREAMPROC_DEBUG") == "1":
            raise
        code = 1
        _complain(_as_a_bug(error))
    sys.exit(code)


def _complain(message: str) -> None:
    print(f"streamproc: {' '.join(message.split())}", file=sys.stderr)


def _with_hint(error: click.ClickException) -> str:
    message = error.format_message().removesuffix(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}: try '{error.ctx.command_path} --help'"
    return message


def _reader_is_gone() -> int:
    """Whoever read our output has seen enough; Python must not try to write the rest of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _as_a_bug(error: Exception) -> str:
    """Where it happened, but not what the exception says: that may quote somebody's data."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"the system refused: {error.strerror}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE in Path(frame.filename).parents]
    where = f" in {Path(frames[-1].filename).relative_to(_PACKAGE.parent)}, line {frames[-1].lineno}" if frames else ""
    return f"this is a bug ({type(error).__name__}{where}): STREAMPROC_DEBUG=1 shows where it comes from; please report it"
