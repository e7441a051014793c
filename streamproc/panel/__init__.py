"""The analyst's side: a panel that grows, questions, and answers with error bars."""

from streamproc.panel.panel import Answer, Panel
from streamproc.panel.query import AtLeast, LastSymbols, Query, count_of, exactly, in_a_row

__all__ = ["Answer", "AtLeast", "LastSymbols", "Panel", "Query", "count_of", "exactly", "in_a_row"]
