"""Hostile input: each decoder, its seeds, its declared errors, the memory it may take; `python -m tests.fuzz` feeds them."""
