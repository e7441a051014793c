"""The command line where everything that can be logged is: `python -m tests.secrets.loud COMMAND STUDY ...`.

As in a program that turns all logging on before it uses ours; asyncio is in its debug mode too.
"""

from __future__ import annotations

import logging
import sys

from streamproc.cli import main as app

ENVIRON = {"PYTHONASYNCIODEBUG": "1", "STREAMPROC_DEBUG": "1"}


def main() -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    app.main()


if __name__ == "__main__":
    main()
