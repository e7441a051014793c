"""What travels and what is kept: every record of every topic as bytes, and back. Pure; `docs/wire-format.md` is its page.

Bytes come from anybody, so a decoder answers with a value or raises `Malformed`, within a stated bound of memory.
"""
