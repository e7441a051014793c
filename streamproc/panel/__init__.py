"""The analyst's side: a panel that grows, queries, and answers with error bars."""

from streamproc.panel.panel import Answer, Panel
from streamproc.releases.query import AtLeast, LastSymbols, Query, at_least, count_of, exactly, in_a_row

__all__ = ["Answer", "AtLeast", "LastSymbols", "Panel", "Query", "at_least", "count_of", "exactly", "in_a_row"]
