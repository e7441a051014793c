"""The real panel `actcal`: monthly activity of 2000 people in Switzerland, from the data folder of PyPI's `sequenzo`.

It is a sample of the Swiss Household Panel that the R package TraMineR made known: A full time (37 hours a week
or more), B long part time (19 to 36), C short part time (1 to 18), D no work; the twelve months of 2000. It is
not ours to ship.
"""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

from experiments.report import Settings
from experiments.trials import Symbols, read_symbols
from streamproc.errors import InvalidInput

ALPHABET = "ABCD"
MONTHS = ("jan00", "feb00", "mar00", "apr00", "may00", "jun00", "jul00", "aug00", "sep00", "oct00", "nov00", "dec00")
SHA256 = "5f59fb88d412c150694dbe10a074af70019a9699ce8c01829fe3d7919e0ae5e9"
"""Of the panel file we make of it, whatever the version of the wheel."""

_MEMBER = "sequenzo/datasets/actcal.csv"
_INSTEAD = "pass the panel (individual,1,...,12; levels A to D) with --actcal FILE"


class NoActcal(InvalidInput):
    """The panel cannot be had; the message says how to pass it."""


def actcal(settings: Settings) -> Symbols:
    """(2000, 12) levels; downloaded once, into `out/cache`, unless a file was given."""
    path = settings.actcal or settings.out / "cache" / "actcal.csv"
    if settings.actcal is None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(panel_file(_download(path.parent)))
    return read_symbols(path, ALPHABET, len(MONTHS))


def panel_file(wheel: Path) -> bytes:
    """The panel in a sequenzo wheel as a panel file, `individual,1,...,12`, people numbered from 0."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            table = csv.DictReader(io.StringIO(archive.read(_MEMBER).decode("utf-8")))
            people = [[row[month] for month in MONTHS] for row in table]
    except (KeyError, zipfile.BadZipFile):
        raise NoActcal(f"{wheel.name} has no {_MEMBER} with the columns {MONTHS[0]} to {MONTHS[-1]}; {_INSTEAD}") from None
    lines = [",".join(["individual", *map(str, range(1, 13))])]
    lines.extend(",".join([str(number), *levels]) for number, levels in enumerate(people))
    made = ("\n".join(lines) + "\n").encode()
    if hashlib.sha256(made).hexdigest() != SHA256:
        raise NoActcal(f"the actcal panel in {wheel.name} is not the one these experiments are about; {_INSTEAD}")
    return made


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(folder)]
    outcome = subprocess.run([*command, "sequenzo"], capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("sequenzo-*.whl"))
    if outcome.returncode or not wheels:
        raise NoActcal(f"pip could not download sequenzo, which has the actcal panel; {_INSTEAD}")
    return wheels[-1]
