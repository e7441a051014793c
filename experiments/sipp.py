"""The paper's own experiment, for whoever has the SIPP 2021 public-use file: `python experiments/sipp.py FILE`.

The file (pu2021.csv of the U.S. Census Bureau) has a header and a line per person and month, separated by `|`, and thousands
of columns, of which four are needed:

    SSUID       the household: the sampled address, the same in all months
    PNUM        the person in it
    MONTHCODE   1..12, the months of 2020
    THINCPOVT2  the household's income of the month over its poverty threshold, "type 2" members (those who lived there only
                part of the time) included: the same number for all who live together in that month

A household's series is that of one of its people: the one with the lowest PNUM, who is listed first and is nearly always
person 101. The others mostly repeat that series; where somebody moved out, they would add a second household to it. A
month is poor if THINCPOVT2 < 1. A household is dropped if its person has no line, or no number, for some month. The paper
kept 23,374 households.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # started as a file: what is imported lies in the folder above, not in this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import click
import numpy as np
import numpy.typing as npt

from experiments.report import Settings
from experiments.trials import Symbols
from streamproc.errors import InvalidInput, StreamprocError

COLUMNS = ("SSUID", "PNUM", "MONTHCODE", "THINCPOVT2")
MONTHS = 12
POOR_BELOW = 1.0


@dataclass(frozen=True, eq=False)
class Households:
    """The panel made of the file."""

    ids: tuple[str, ...]
    poor: Symbols
    """(households, 12): 1 is poor."""
    dropped: int
    """Households with a month missing."""


def prepare(path: Path) -> Households:
    """Read a SIPP file as the paper did. Memory is that of four columns."""
    household, person, month, ratio = _read(path)
    if len(month) and not ((month >= 1) & (month <= MONTHS)).all():
        raise InvalidInput(f"{path}: expected MONTHCODE 1 to {MONTHS} in every line")
    names, place = np.unique(household, return_inverse=True)
    first = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(first, place, person)
    theirs = person == first[place]
    place, month, ratio = place[theirs], month[theirs], ratio[theirs]
    if len(np.unique(place * MONTHS + month - 1)) < len(place):
        raise InvalidInput(f"{path}: expected one line for each person and month")
    series = np.full((len(names), MONTHS), np.nan)
    series[place, month - 1] = ratio
    complete = ~np.isnan(series).any(axis=1)
    if not complete.any():
        raise InvalidInput(f"{path}: expected households with all {MONTHS} months, but there are none")
    poor = (series[complete] < POOR_BELOW).astype(np.uint8)
    return Households(tuple(names[complete].tolist()), poor, int((~complete).sum()))


def _read(path: Path) -> tuple[npt.NDArray[Any], ...]:
    """The four columns; a blank ratio is NaN."""
    import pyarrow as pa
    import pyarrow.csv

    kinds = dict(zip(COLUMNS, (pa.string(), pa.int64(), pa.int64(), pa.float64()), strict=True))
    convert = pyarrow.csv.ConvertOptions(include_columns=list(COLUMNS), column_types=kinds)
    parse = pyarrow.csv.ParseOptions(delimiter="|")
    try:
        with pyarrow.csv.open_csv(path, parse_options=parse, convert_options=convert) as lines:
            table = lines.read_all()
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InvalidInput(f"{path}: expected a SIPP file, separated by |, with {', '.join(COLUMNS)}: {reason}") from None
    household = table["SSUID"].to_numpy().astype(str)
    if table["PNUM"].null_count or table["MONTHCODE"].null_count or (household == "").any():
        raise InvalidInput(f"{path}: expected SSUID, PNUM and MONTHCODE in every line")
    return household, *(table[name].to_numpy() for name in COLUMNS[1:])


def write_panel(path: Path, households: Households) -> None:
    """As a panel file, `individual,1,...,12`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(["individual", *map(str, range(1, MONTHS + 1))])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(households.ids, households.poor.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", default=300, show_default=True, type=click.IntRange(1), help="Repetitions of each release.")
@click.option(
    "--out", default=Path(__file__).parent / "out", type=click.Path(path_type=Path), help="Folder for the results."
)
def main(file: Path, runs: int, out: Path) -> None:
    """Prepare the SIPP 2021 public-use FILE as the paper did, write it as a panel, and run the poverty experiment on it."""
    # Here and not above: every worker process imports this module, and none draws figures.
    from experiments import comparison, subjects

    try:
        households = prepare(file)
        write_panel(out / "sipp.csv", households)
        click.echo(
            f"{out / 'sipp.csv'}: {len(households.ids)} households; {households.dropped} dropped for a missing month."
        )
        comparison.report(Settings(out, runs), subjects.poverty(households.poor, "sipp-poverty"), "SIPP 2021")
    except StreamprocError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
