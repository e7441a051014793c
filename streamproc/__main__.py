"""`python -m streamproc`."""

from streamproc.cli.app import main

main()
