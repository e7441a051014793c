"""Studies and panels that must be refused, as data: each with what the one-line message has to name."""

from __future__ import annotations

import gzip

from tests.studies import study_toml, window_table

GOOD_STUDY = """
[study]
name = "poverty"
alphabet = ["0", "1"]
horizon = 12

[privacy]
rho = 0.005

[[release]]
name = "quarterly"
kind = "window"
k = 3
"""


def _with(old: str, new: str) -> str:
    """The good study with one thing changed."""
    assert GOOD_STUDY.count(old) == 1, old
    return GOOD_STUDY.replace(old, new)


def _and(more: str) -> str:
    """The good study with something added at its end, which is in the window release."""
    return f"{GOOD_STUDY}{more}\n"


_CUMULATIVE = '\n[[release]]\nname = "months"\nkind = "cumulative"\n'
_LETTERS = _with('["0", "1"]', '["A", "B", "C"]')

BAD_STUDIES: list[tuple[str, str, str]] = [
    ("empty file", "", "study.name"),
    ("not TOML", "[study\nname = 3", "study file"),
    ("a key twice", _with("horizon = 12", "horizon = 12\nhorizon = 13"), "study file"),
    ("a name of lists in lists", _with('name = "poverty"', f"name = {'[' * 400}{']' * 400}"), "study.name"),
    ("a key of 100,000 parts", GOOD_STUDY + "a." * 100_000 + "a = 1", "study file"),
    ("a number of 5000 digits", _with("horizon = 12", f"horizon = {'9' * 5000}"), "study file"),
    ("a hexadecimal number of 5000 digits", _with("horizon = 12", f"horizon = 0x{'f' * 5000}"), "study.horizon"),
    ("an exponent no decimal has", _with("rho = 0.005", f"rho = 1e{'9' * 30}"), "study file"),
    ("lists without end", _with("horizon = 12", f"horizon = {'[' * 50_000}"), "study file"),
    ("unknown table", _and("[populatoin]\nsize = 3"), "populatoin"),
    ("a key outside any table", f"horizon = 12\n{GOOD_STUDY}", "horizon"),
    ("table given as a number", "study = 3", "study"),
    ("unknown key", _with("horizon", "horizn"), "study.horizn"),
    ("unknown key with a line break", _with("horizon = 12", '"a\\nb" = 12'), "study.'a\\nb'"),
    ("unknown key of 1000 letters", _with("horizon", "h" * 1000), "study.'hhh"),
    ("no name", _with('name = "poverty"', ""), "study.name"),
    ("name with a space", _with('"poverty"', '"my study"'), "study.name"),
    ("name with a dot", _with('"poverty"', '"a.b"'), "study.name"),
    ("name with a line break at its end", _with('"poverty"', '"poverty\\n"'), "study.name"),
    ("name beginning with a dash", _with('"poverty"', '"-poverty"'), "study.name"),
    ("name of 101 letters", _with('"poverty"', f'"{"a" * 101}"'), "study.name"),
    ("name that is a number", _with('"poverty"', "7"), "study.name"),
    ("no alphabet", _with('alphabet = ["0", "1"]', ""), "study.alphabet"),
    ("alphabet of one", _with('["0", "1"]', '["0"]'), "study.alphabet"),
    ("alphabet of 65", _with('["0", "1"]', str([str(s) for s in range(65)])), "study.alphabet"),
    ("alphabet as text", _with('["0", "1"]', '"01"'), "study.alphabet"),
    ("symbol that is a number", _with('["0", "1"]', "[0, 1]"), "study.alphabet"),
    ("empty symbol", _with('["0", "1"]', '["0", ""]'), "study.alphabet"),
    ("symbol twice", _with('["0", "1"]', '["0", "1", "0"]'), "study.alphabet"),
    ("symbol with the bar of labels", _with('["0", "1"]', '["a|b", "c"]'), "study.alphabet"),
    ("symbol with a line break", _with('["0", "1"]', '["a\\nb", "c"]'), "study.alphabet"),
    ("symbol ending in a space", _with('["0", "1"]', '["a ", "c"]'), "study.alphabet"),
    ("symbol of 65 characters", _with('["0", "1"]', f'["{"a" * 65}", "c"]'), "study.alphabet"),
    ("no horizon", _with("horizon = 12", ""), "study.horizon"),
    ("horizon 0", _with("horizon = 12", "horizon = 0"), "study.horizon"),
    ("horizon above 10000", _with("horizon = 12", "horizon = 10_001"), "study.horizon"),
    ("horizon that is true", _with("horizon = 12", "horizon = true"), "study.horizon"),
    ("horizon with a point", _with("horizon = 12", "horizon = 12.0"), "study.horizon"),
    ("horizon as text", _with("horizon = 12", 'horizon = "12"'), "study.horizon"),
    ("cumulative over 2001 periods", _with("horizon = 12", "horizon = 2001") + _CUMULATIVE, "study.horizon"),
    ("size 0", _and("[population]\nsize = 0"), "population.size"),
    ("size above 2^30", _and("[population]\nsize = 1_073_741_825"), "population.size"),
    ("size that is true", _and("[population]\nsize = true"), "population.size"),
    ("empty roster", _and('[population]\nroster = ""'), "population.roster"),
    ("roster as a list", _and('[population]\nroster = ["a"]'), "population.roster"),
    ("missing unknown", _and('[population]\nmissing = "mean"'), "population.missing"),
    ("missing that is a number", _and("[population]\nmissing = 0"), "population.missing"),
    ("fill without a symbol", _and('[population]\nmissing = "fill:"'), "population.missing"),
    ("fill from outside", _and('[population]\nmissing = "fill:2"'), "population.missing"),
    ("initial from outside", _and('[population]\ninitial = "2"'), "population.initial"),
    ("initial as a number", _and("[population]\ninitial = 0"), "population.initial"),
    ("duplicates unknown", _and('[population]\nduplicates = "both"'), "population.duplicates"),
    ("ahead 0", _and("[population]\nahead = 0"), "population.ahead"),
    ("ahead as text", _and('[population]\nahead = "2"'), "population.ahead"),
    (
        "ahead below the periods that a grace spans",
        _and('[population]\nahead = 2\n[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "1h"\ngrace = "3h"'),
        "population.ahead",
    ),
    (
        "ahead 1 with a grace",
        _and('[population]\nahead = 1\n[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "day"\ngrace = "5m"'),
        "population.ahead",
    ),
    ("no privacy", _with("[privacy]\nrho = 0.005", ""), "privacy.rho"),
    ("rho and epsilon", _with("rho = 0.005", "rho = 0.005\nepsilon = 1.0"), "privacy.rho"),
    ("rho 0", _with("rho = 0.005", "rho = 0"), "privacy.rho"),
    ("rho negative", _with("rho = 0.005", "rho = -0.5"), "privacy.rho"),
    ("rho not a number", _with("rho = 0.005", "rho = nan"), "privacy.rho"),
    ("rho infinite", _with("rho = 0.005", "rho = inf"), "privacy.rho"),
    ("rho too small for a float", _with("rho = 0.005", "rho = 1e-400"), "privacy.rho"),
    ("rho above 1000", _with("rho = 0.005", "rho = 1000.5"), "privacy.rho"),
    ("rho no float holds", _with("rho = 0.005", f"rho = {'9' * 400}"), "privacy.rho"),
    ("rho that is true", _with("rho = 0.005", "rho = true"), "privacy.rho"),
    ("rho as text", _with("rho = 0.005", 'rho = "0.005"'), "privacy.rho"),
    ("epsilon 0", _with("rho = 0.005", "epsilon = 0.0"), "privacy.epsilon"),
    ("delta 0", _with("rho = 0.005", "rho = 0.005\ndelta = 0"), "privacy.delta"),
    ("delta one half", _with("rho = 0.005", "rho = 0.005\ndelta = 0.5"), "privacy.delta"),
    ("adjacency unknown", _with("rho = 0.005", 'rho = 0.005\nadjacency = "add-one"'), "privacy.adjacency"),
    ("no release", GOOD_STUDY.partition("[[release]]")[0], "release"),
    ("release as one table", _with("[[release]]", "[release]"), "release"),
    ("release as numbers", f"release = [1, 2]\n{GOOD_STUDY.partition('[[release]]')[0]}", "release"),
    ("release without a name", _with('name = "quarterly"', ""), "release[1].name"),
    ("second release with a bad name", _and('[[release]]\nname = "a/b"\nkind = "window"'), "release[2].name"),
    ("release named like a file of replay", _with('"quarterly"', '"errors"'), "release[1].name"),
    ("release name twice", _and('[[release]]\nname = "quarterly"\nkind = "window"\nk = 2'), "release[2].name"),
    ("release name in other case", _and('[[release]]\nname = "Quarterly"\nkind = "window"\nk = 2'), "release[2].name"),
    ("no kind", _with('kind = "window"', ""), "release.quarterly.kind"),
    ("kind unknown", _with('"window"', '"windows"'), "release.quarterly.kind"),
    ("kind misspelt", _with("kind", "knid"), "release.quarterly.knid"),
    ("kind as a list", _with('"window"', '["window"]'), "release.quarterly.kind"),
    ("no k", _with("k = 3", ""), "release.quarterly.k"),
    ("k 0", _with("k = 3", "k = 0"), "release.quarterly.k"),
    ("k above the horizon", _with("k = 3", "k = 13"), "release.quarterly.k"),
    ("k with too many bins", GOOD_STUDY.replace("= 12", "= 20").replace("= 3", "= 17"), "release.quarterly.k"),
    ("k as text", _with("k = 3", 'k = "3"'), "release.quarterly.k"),
    ("k on a cumulative release", _and(_CUMULATIVE + "k = 3"), "release.months.k"),
    ("event on a window release", _and('event = ["1"]'), "release.quarterly.event"),
    ("measure unknown", _and('measure = "counts"'), "release.quarterly.measure"),
    ("beta 1", _and("beta = 1"), "release.quarterly.beta"),
    ("beta 0", _and("beta = 0.0"), "release.quarterly.beta"),
    ("share 0", _and("share = 0"), "release.quarterly.share"),
    ("share above 1", _and("share = 1.5"), "release.quarterly.share"),
    ("share not a number", _and("share = nan"), "release.quarterly.share"),
    ("share with a billion decimals", _and("share = 1e-999999999"), "release.quarterly.share"),
    ("share as text", _and('share = "half"'), "release.quarterly.share"),
    ("shares above 1", _and("share = 0.6" + _CUMULATIVE + "share = 0.5"), "release.months.share"),
    ("no share left", _and("share = 1" + _CUMULATIVE), "release.months.share"),
    ("counter unknown", _and(_CUMULATIVE + 'counter = "naive"'), "release.months.counter"),
    ("allocation unknown", _and(_CUMULATIVE + 'allocation = "even"'), "release.months.allocation"),
    ("event missing with three symbols", _LETTERS + _CUMULATIVE, "release.months.event"),
    ("event empty", _and(_CUMULATIVE + "event = []"), "release.months.event"),
    ("event of every symbol", _and(_CUMULATIVE + 'event = ["0", "1"]'), "release.months.event"),
    ("event twice", _LETTERS + _CUMULATIVE + 'event = ["B", "B"]', "release.months.event"),
    ("event from outside", _and(_CUMULATIVE + 'event = ["2"]'), "release.months.event"),
    ("event as text", _and(_CUMULATIVE + 'event = "1"'), "release.months.event"),
    ("broker of another kind", _and('[broker]\nurl = "http://example.org"'), "broker.url"),
    ("broker without a folder", _and('[broker]\nurl = "embedded:"'), "broker.url"),
    ("broker without a port", _and('[broker]\nurl = "kafka://one"'), "broker.url"),
    ("broker with an impossible port", _and('[broker]\nurl = "kafka://one:70000"'), "broker.url"),
    ("broker with an empty server", _and('[broker]\nurl = "kafka://one:9092,"'), "broker.url"),
    ("broker with a password", _and('[broker]\nurl = "kafka://me:secret@one:9092"'), "broker.url"),
    ("broker as a number", _and("[broker]\nurl = 9092"), "broker.url"),
    ("no partitions", _and("[broker]\npartitions = 0"), "broker.partitions"),
    ("too many partitions", _and("[broker]\npartitions = 1025"), "broker.partitions"),
    ("schedule without a start", _and('[schedule]\nevery = "day"'), "schedule.start"),
    ("start without a zone", _and('[schedule]\nstart = 2026-01-01T00:00:00\nevery = "day"'), "schedule.start"),
    ("start as a day", _and('[schedule]\nstart = 2026-01-01\nevery = "day"'), "schedule.start"),
    ("start before the year 1", _and("[schedule]\nstart = 0001-01-01T00:00:00+05:00"), "schedule.start"),
    ("schedule without every", _and("[schedule]\nstart = 2026-01-01T00:00:00Z"), "schedule.every"),
    ("every 0 seconds", _and('[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "0s"'), "schedule.every"),
    ("every fortnight", _and('[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "fortnight"'), "schedule.every"),
    ("every 60", _and("[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = 60"), "schedule.every"),
    ("every a billion weeks", _and('[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "9999999w"'), "schedule.every"),
    ("a month after the last", _and('[schedule]\nstart = 9999-06-01T00:00:00Z\nevery = "month"'), "schedule.every"),
    ("a week after the last", _and('[schedule]\nstart = 9999-12-01T00:00:00Z\nevery = "week"'), "schedule.every"),
    (
        "grace of a month",
        _and('[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "day"\ngrace = "month"'),
        "schedule.grace",
    ),
    (
        "grace negative",
        _and('[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "day"\ngrace = "-5m"'),
        "schedule.grace",
    ),
]

PANEL_STUDY = study_toml(window_table("pairs", 2), name="small", population={"size": 2})

SECRETS = ("zoe-secret", "yan-secret", "quux")
"""Ids and cells of the panels below: none may be in a message."""

_GOOD_PANEL = b"individual,1,2,3\nzoe-secret,0,1,\nyan-secret,1,1,0\n"


def _panel(old: bytes, new: bytes) -> bytes:
    assert _GOOD_PANEL.count(old) == 1, old
    return _GOOD_PANEL.replace(old, new)


BAD_PANELS: list[tuple[str, str, bytes, str]] = [
    ("empty file", "p.csv", b"", "line 1"),
    ("only a byte order mark", "p.csv", b"\xef\xbb\xbf", "line 1"),
    ("blank first line", "p.csv", b"\n" + _GOOD_PANEL, "line 1"),
    ("no header", "p.csv", _GOOD_PANEL.partition(b"\n")[2], "line 1, column 1"),
    ("other first column", "p.csv", _panel(b"individual", b"id"), "line 1, column 1"),
    ("periods in another order", "p.csv", _panel(b"1,2,3", b"2,1,3"), "line 1, column 2"),
    ("period from 0", "p.csv", _panel(b"1,2,3", b"0,1,2"), "line 1, column 2"),
    ("a space in the header", "p.csv", _panel(b"1,2,3", b"1, 2,3"), "line 1, column 3"),
    ("too few periods", "p.csv", b"individual,1,2\nzoe-secret,0,1\n", "line 1"),
    ("too many periods", "p.csv", _panel(b"1,2,3", b"1,2,3,4"), "line 1"),
    ("separated by semicolons", "p.csv", _GOOD_PANEL.replace(b",", b";"), "line 1"),
    ("no people", "p.csv", b"individual,1,2,3\n", "line 2"),
    ("row too short", "p.csv", _panel(b"zoe-secret,0,1,", b"zoe-secret,0,1"), "line 2"),
    ("row too long", "p.csv", _panel(b"yan-secret,1,1,0", b"yan-secret,1,1,0,0"), "line 3"),
    ("symbol outside", "p.csv", _panel(b"yan-secret,1,1,0", b"yan-secret,1,quux,0"), "line 3, column 3"),
    ("a space before a symbol", "p.csv", _panel(b"yan-secret,1,1,0", b"yan-secret,1,1, 0"), "line 3, column 4"),
    (
        "symbol outside after a blank line",
        "p.csv",
        _panel(b"\nyan-secret,1", b"\n\nyan-secret,quux"),
        "line 4, column 2",
    ),
    ("empty id", "p.csv", _panel(b"yan-secret", b""), "line 3, column 1"),
    ("id twice", "p.csv", _panel(b"yan-secret", b"zoe-secret"), "line 3, column 1"),
    ("one person less than size", "p.csv", b"individual,1,2,3\nzoe-secret,0,1,\n", "population.size"),
    ("one person more than size", "p.csv", _GOOD_PANEL + b"quux,0,0,0\n", "population.size"),
    ("open quote", "p.csv", _panel(b"yan-secret", b'"yan-secret'), "line 3"),
    ("text after a quote", "p.csv", _panel(b"yan-secret", b'"yan"-secret'), "line 3"),
    ("not UTF-8", "p.csv", _panel(b"yan-secret", b"yan-secret\xff"), "UTF-8"),
    ("UTF-16", "p.csv", _GOOD_PANEL.decode().encode("utf-16"), "UTF-8"),
    ("a cell of 200 kB", "p.csv", _panel(b"yan-secret", b"quux" * 50_000), "line 3"),
    ("not gzip", "p.csv.gz", _GOOD_PANEL, "gzip"),
    ("gzip cut short", "p.csv.gz", gzip.compress(_GOOD_PANEL)[:-6], "gzip"),
    ("gzip with a flipped byte", "p.csv.gz", gzip.compress(_GOOD_PANEL)[:-8] + b"\0" * 8, "gzip"),
    ("gzip of a bad panel", "p.gz", gzip.compress(_panel(b"zoe-secret,0", b"zoe-secret,quux")), "line 2, column 2"),
    ("not Parquet", "p.parquet", _GOOD_PANEL, "Parquet"),
    ("empty Parquet", "p.parquet", b"", "Parquet"),
    ("neither CSV nor Parquet", "p.xlsx", _GOOD_PANEL, ".csv"),
]
