"""The command line: every command, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import sys

import click

from streamproc.cli.plan import plan
from streamproc.cli.replay import replay
from streamproc.errors import StreamprocError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


streamproc.add_command(plan)
streamproc.add_command(replay)


def main() -> None:
    """Run a command; end with its exit code, and on error with one line on standard error."""
    try:
        code = streamproc.main(standalone_mode=False)
    except StreamprocError as error:
        _complain(str(error))
        code = error.exit_code
    except click.ClickException as error:
        _complain(error.format_message())
        code = 2
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        code = 130
    except BrokenPipeError:
        code = 0
    sys.exit(code)


def _complain(message: str) -> None:
    print(f"streamproc: {' '.join(message.split())}", file=sys.stderr)
