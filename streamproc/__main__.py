"""Entry point of the command line: the script `streamproc`, and `python -m streamproc`."""

from __future__ import annotations

from typing import NoReturn

from streamproc.cli.signals import install_signal_handlers


def main() -> NoReturn:
    """Install the signal handlers, then import the commands: imports take a second, and Ctrl-C may come before that."""
    install_signal_handlers()
    from streamproc.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
