"""Requests changed where a server looks: what a query says after percent-decoding, the parts of a path, the headers."""

from __future__ import annotations

from random import Random
from urllib.parse import quote, unquote_to_bytes

from tests.fuzz.mutators import of_bytes
from tests.fuzz.trees import mutate_bytes

LINE_END = b"\r\n"

_NUMBERS = (
    *b"0 1 2 3 4 12 100 101 500 501 -1 +1 1_0 1e3 1.0 01 nan 0x1".split(),
    *(b"", b" 1", b"1\n", b"9" * 18, b"1" + b"0" * 18, b"9" * 5_000, b"0" * 17 + b"1"),
    *(digit.encode() for digit in "٣²１"),
)
_NAMES = b"w c W w.csv ledger tallies .. ../w / \\ % %77 + & = # | : * a ab in <script> {0} %s".split()
_QUESTIONS = (
    *b"bin: bin bin:ab bin:aba bin:xy bin:in|out bin:in| bin:x|y bin:| bin:a|b BIN:ab any:a :".split(),
    *b"symbol:a symbol: symbol:x ever:in ever:a|b always:out always: symbol:symbol:a".split(),
    *(b"atleast:" + number for number in _NUMBERS),
)
UNUSUAL_VALUES = (
    *(b"\0", b"\r\n", b"\n", b"\t", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b'"'),
    *("ö".encode(), "😀".encode(), "\u2028".encode(), "\u202e".encode(), "\u0301".encode() * 9, b"x" * 2_000),
)
ASKED = {
    b"release": _NAMES,
    b"query": _QUESTIONS,
    b"search": _NAMES,
    **dict.fromkeys((b"limit", b"from", b"to", b"before", b"offset"), _NUMBERS),
    **dict.fromkeys((b"Query", b"", b"query[]"), UNUSUAL_VALUES),
}
"""What stands in a query, and texts that mean something there or nearly do."""

_TOKEN = b"a-token-nobody-guesses"
_HEADERS = {
    b"Authorization": (b"Bearer " + _TOKEN, b"bearer " + _TOKEN.upper(), _TOKEN, b"Bearer", b"Bearer \xff\xc3\xbc", b""),
    b"If-None-Match": (b"*", b'W/"', b"\xff"),
    b"Accept-Encoding": (b"gzip", b"deflate;q=0, \xff"),
    b"Host": (b"", b"\xff", b"a:b:c"),
    b"Content-Length": (b"5", b"-1", b"9" * 30),
    b"Transfer-Encoding": (b"chunked",),
    b"Connection": (b"upgrade", b"keep-alive"),
    b"Content-Type": (b"\xff", b"multipart/form-data"),
}
_METHODS = (b"GET", b"GET", b"HEAD", b"POST", b"OPTIONS", b"get")


def of_request(value: bytes, rng: Random) -> bytes:
    """One to three changes."""
    for _ in range(rng.randint(1, 3)):
        lines = value.split(LINE_END)
        words = lines[0].split(b" ")
        choice = rng.randrange(12)
        if len(words) != 3 or choice == 0:
            value = of_bytes(value, rng)
            continue
        if choice == 1:
            words[0] = rng.choice(_METHODS)
        elif choice <= 3:
            lines[1:] = _changed_headers(lines[1:], rng)
        else:
            words[1] = _changed_address(words[1], rng)
        value = LINE_END.join([b" ".join(words), *lines[1:]])
    return value


def _changed_headers(lines: list[bytes], rng: Random) -> list[bytes]:
    """One put in, or one that is there given another value."""
    index, name = rng.randrange(max(len(lines) - 2, 1)), rng.choice(list(_HEADERS))
    if rng.random() < 0.3:
        return [*lines[:index], _header(name, rng), *lines[index:]]
    known, _, text = lines[index].partition(b": ") if lines else (name, b"", b"")
    changed = _header(known, rng) if known in _HEADERS else known + b": " + mutate_bytes(text, rng)
    return [*lines[:index], changed, *lines[index + 1 :]]


def _header(name: bytes, rng: Random) -> bytes:
    return name + b": " + rng.choice(_HEADERS[name])


def _changed_address(address: bytes, rng: Random) -> bytes:
    path, mark, query = address.partition(b"?")
    if rng.random() < 0.15:
        parts = path.split(b"/")
        index = rng.randrange(len(parts))
        parts[index] = _escaped(_changed_text(b"release", unquote_to_bytes(parts[index]), rng), rng)
        return b"/".join(parts) + mark + query
    pairs = query.split(b"&") if query else []
    index = rng.randrange(len(pairs) + 1)
    match rng.randrange(6):
        case 0:
            del pairs[index : index + 1]
        case 1:
            pairs[index:index] = pairs[index : index + 1] * rng.choice((1, 1, 15, 16))
        case _ if index < len(pairs):
            name, _, text = pairs[index].partition(b"=")
            pairs[index] = name + b"=" + _escaped(_changed_text(name, unquote_to_bytes(text), rng), rng)
        case _:
            name = rng.choice(list(ASKED))
            pairs.append(name + b"=" + _escaped(rng.choice(ASKED[name]), rng))
    return path + b"?" + b"&".join(pairs)


def _changed_text(name: bytes, text: bytes, rng: Random) -> bytes:
    """Mostly something that means something where this name stands."""
    match rng.randrange(8):
        case 0:
            return rng.choice(UNUSUAL_VALUES)
        case 1:
            return text + rng.choice(UNUSUAL_VALUES)
        case 2 | 3:
            return mutate_bytes(text, rng)
        case _:
            return rng.choice(ASKED.get(name, _NAMES))


def _escaped(text: bytes, rng: Random) -> bytes:
    """As an address has it; now and then as it stands, which mostly is no address."""
    return text if rng.random() < 0.05 else quote(text, safe=rng.choice(("", ":|"))).encode()
