"""Encoding and decoding of every record and every state file. Pure functions; `docs/wire-format.md` describes the formats.

Bytes are untrusted: a decoder returns a value or raises `Malformed`, within a stated bound of memory.
"""
