"""A panel as a pandas or Arrow table, and back.

Column `synthetic` holds the row's number from 0; columns "1".."t" hold symbols, as a dictionary (Arrow) or categories
(pandas) with the whole alphabet in its order. In an open study a cell is null while the synthetic person is not present. An
Arrow table carries the release's contract and measurements in its schema,
where Parquet and Feather files keep them. A pandas frame cannot, so the caller gives them to make a panel from it.

pandas and pyarrow are extras, so they are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput
from streamproc.panel.metadata import Metadata, metadata_from_text, metadata_text
from streamproc.panel.open_columns import cells_of_columns, columns_of_cells, empty_cell
from streamproc.panel.panel import Panel
from streamproc.privacy.types import IntArray
from streamproc.releases.kind import Contract
from streamproc.releases.step import Column, Measurements
from streamproc.validation import describe_value

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SYNTHETIC = "synthetic"
METADATA_KEY = b"streamproc"

_FOREIGN = 255
"""Code of a cell that is not a symbol of the alphabet. It occurs only while a column is read."""


def panel_to_arrow(panel: Panel) -> pa.Table:
    """The panel as an Arrow table, with all that a reader needs to get the same answers."""
    arrow = import_extra("pyarrow")
    symbols = arrow.array(panel.contract.alphabet, arrow.string())
    columns = []
    for column in cells_of_columns(panel.contract, panel.columns):
        is_empty = column == empty_cell(panel.contract.alphabet)
        codes = arrow.array(column.astype(np.int8), mask=is_empty if is_empty.any() else None)
        columns.append(arrow.DictionaryArray.from_arrays(codes, symbols))
    table = arrow.table([arrow.array(np.arange(panel.rows)), *columns], names=_names(len(columns)))
    return table.replace_schema_metadata({METADATA_KEY: metadata_text(panel)})


def panel_from_arrow(table: pa.Table, contract: Contract | None = None) -> Panel:
    """The panel in `table`. Without the metadata that `panel_to_arrow` writes, the release's contract must be given."""
    arrow = import_extra("pyarrow")
    _check_table(table, arrow.Table)
    if contract is not None:
        _check_contract(contract)
    carried = (table.schema.metadata or {}).get(METADATA_KEY)
    metadata = _agreed(None if carried is None else metadata_from_text(carried), contract)
    _check_names(table.column_names)
    try:
        table.validate(full=True)
    except arrow.ArrowInvalid:
        raise InvalidInput("the table is damaged") from None
    numbers = table.column(0)
    _check_numbers(np.asarray(numbers) if arrow.types.is_integer(numbers.type) and not numbers.null_count else None)
    alphabet = arrow.array(metadata.contract.alphabet, arrow.string())
    gaps = metadata.contract.is_open
    columns = [_arrow_codes(arrow, column, alphabet, place, gaps) for place, column in enumerate(table.columns[1:], start=1)]
    return metadata.panel_of(columns_of_cells(metadata.contract, columns))


def panel_to_pandas(panel: Panel) -> pd.DataFrame:
    """The panel as a pandas frame, without its contract and measurements."""
    pandas = import_extra("pandas")
    kind = pandas.CategoricalDtype(list(panel.contract.alphabet))
    empty = empty_cell(panel.contract.alphabet)
    columns = [
        pandas.Categorical.from_codes(np.where(column == empty, -1, column).astype(np.int8), dtype=kind)
        for column in cells_of_columns(panel.contract, panel.columns)
    ]
    data = dict(zip(_names(len(columns)), [np.arange(panel.rows), *columns], strict=True))
    frame: pd.DataFrame = pandas.DataFrame(data)
    return frame


def panel_from_pandas(
    frame: pd.DataFrame, contract: Contract, measurements: tuple[Measurements, ...] | None = None
) -> Panel:
    """The panel in `frame`; without its measurements, intervals of a cumulative release are wider."""
    pandas = import_extra("pandas")
    _check_table(frame, pandas.DataFrame)
    _check_contract(contract)
    _check_names([str(name) for name in frame.columns])
    numbers = frame.iloc[:, 0]
    _check_numbers(numbers.to_numpy() if pandas.api.types.is_integer_dtype(numbers.dtype) and not numbers.hasnans else None)
    alphabet = pandas.Index(contract.alphabet)
    gaps = contract.is_open
    columns = [_pandas_codes(pandas, frame.iloc[:, place], alphabet, place, gaps) for place in range(1, frame.shape[1])]
    return Metadata(contract, _measured(measurements)).panel_of(columns_of_cells(contract, columns))


def check_arrow() -> None:
    """Raise InvalidInput if pyarrow is missing, so that a long command fails at its start."""
    import_extra("pyarrow")


def has_arrow() -> bool:
    """Whether pyarrow, an extra, can be imported."""
    return find_spec("pyarrow") is not None


def import_extra(name: str) -> Any:
    """Import a module of the extra `frames`; raises InvalidInput, which says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(f"this needs {name}: pip install streamproc[frames]") from None


def _check_table(table: object, kind: type) -> None:
    if not isinstance(table, kind):
        raise InvalidInput(f"expected a {kind.__name__} of {kind.__module__.partition('.')[0]}, got {describe_value(table)}")


def _check_contract(contract: object) -> None:
    if not isinstance(contract, Contract):
        raise InvalidInput(f"expected the release's contract, got {describe_value(contract)}")


def _measured(measurements: Any) -> tuple[list[IntArray], ...] | None:
    """The caller's measurements in the form that a Panel has them."""
    try:
        return None if measurements is None else tuple([_integers(rows) for rows in period] for period in measurements)
    except (TypeError, ValueError):
        raise InvalidInput("measurements: expected those of a Panel, arrays of integers for each period") from None


def _integers(rows: Any) -> IntArray:
    found = np.asarray(rows)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError
    return found.astype(np.int64, casting="safe" if found.size else "unsafe")


def _agreed(metadata: Metadata | None, contract: Contract | None) -> Metadata:
    """The metadata of the table, or the contract of the caller. Raises InvalidInput without either, or if they differ."""
    if metadata is None:
        if contract is None:
            raise InvalidInput("there is no streamproc metadata in it, so the release's contract must be given")
        return Metadata(contract)
    if contract is not None and contract.to_dict() != metadata.contract.to_dict():
        raise InvalidInput("its metadata holds another contract than the one given")
    return metadata


def _names(periods: int) -> list[str]:
    return [SYNTHETIC, *map(str, range(1, periods + 1))]


def _check_names(names: Sequence[str]) -> None:
    if list(names) != _names(len(names) - 1):
        raise InvalidInput(f"expected the columns {SYNTHETIC}, 1, ..., t in this order")


def _check_numbers(numbers: npt.NDArray[Any] | None) -> None:
    if numbers is None or not np.array_equal(numbers, np.arange(len(numbers))):
        raise InvalidInput(f"column {SYNTHETIC}: expected the number of each row, from 0, in this order")


def _arrow_codes(arrow: Any, column: Any, alphabet: Any, period: int, gaps: bool) -> Column:
    """Alphabet indices of a column of strings or integers, plain or as a dictionary; with `gaps`, nulls are empty cells."""
    compute = import_extra("pyarrow.compute")
    if gaps and arrow.types.is_floating(column.type):
        column = _whole_numbers(arrow, compute, column, period)
    kind = column.type.value_type if arrow.types.is_dictionary(column.type) else column.type
    texts = (arrow.types.is_string, arrow.types.is_large_string, arrow.types.is_string_view)
    allowed = (*texts, arrow.types.is_integer, *([arrow.types.is_null] if gaps else []))
    if (column.null_count and not gaps) or not any(fits(kind) for fits in allowed):
        missing = "" if gaps else ", none missing"
        raise InvalidInput(f"column {period}: expected strings or integers{missing}, but its type is {kind}")
    parts = [np.zeros(0, dtype=np.uint8)]
    for chunk in column.chunks:
        values = chunk.dictionary if arrow.types.is_dictionary(chunk.type) else chunk
        found = compute.index_in(values.cast(arrow.string()), value_set=alphabet).fill_null(_FOREIGN)
        codes = np.asarray(found).astype(np.uint8)
        if values is not chunk:
            codes = np.append(codes, np.uint8(_FOREIGN)).take(np.asarray(chunk.indices.fill_null(len(codes))))
        is_null = np.asarray(chunk.is_null())
        parts.append(np.where(is_null, np.uint8(len(alphabet)), codes) if gaps else codes)
    return _symbols(np.concatenate(parts), period)


def _whole_numbers(arrow: Any, compute: Any, column: Any, period: int) -> Any:
    """Integers that pandas turned into floats, because some cells are empty."""
    column = compute.if_else(compute.is_nan(column), None, column)
    if compute.all(compute.equal(compute.round(column), column)).as_py() is False:
        raise InvalidInput(f"column {period}: expected strings or integers, but it holds fractions")
    return column.cast(arrow.int64())


def _pandas_codes(pandas: Any, column: Any, alphabet: Any, period: int, gaps: bool) -> Column:
    """Alphabet indices of a column of strings, integers or categories; with `gaps`, missing ones and "" are empty cells."""
    if column.hasnans and not gaps:
        raise InvalidInput(f"column {period}: expected a symbol in every row, but some are missing")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        names = np.append(alphabet.get_indexer(column.cat.categories.astype(str)), -1)
        places = names[column.cat.codes]
    else:
        if gaps and pandas.api.types.is_float_dtype(column.dtype):
            column = _whole_series(column, period)
        places = alphabet.get_indexer(column.astype(str))
    if gaps:
        is_empty = (column.isna() | (column.astype(object) == "")).to_numpy(dtype=bool)
        places = np.where(is_empty, len(alphabet), places)
    return _symbols(np.where(places < 0, _FOREIGN, places).astype(np.uint8), period)


def _whole_series(column: Any, period: int) -> Any:
    """Integers that pandas turned into floats, because some cells are empty."""
    try:
        return column.astype("Int64")
    except (TypeError, ValueError):
        raise InvalidInput(f"column {period}: expected strings or integers, but it holds fractions") from None


def _symbols(codes: Column, period: int) -> Column:
    foreign = np.flatnonzero(codes == _FOREIGN)
    if len(foreign):
        raise InvalidInput(f"column {period}, row {foreign[0]}: expected a symbol of the release's alphabet")
    return codes
