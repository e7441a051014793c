"""`python -m streamproc`."""

from streamproc.cli.start import main

main()
