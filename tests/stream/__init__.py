"""Whole studies through real processes, on the embedded log and on a real broker."""
