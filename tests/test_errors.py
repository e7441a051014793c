"""The tree of errors in the docstring of `streamproc.errors` is the tree of classes."""

from __future__ import annotations

import inspect
import pickle
import re

from streamproc import errors
from streamproc.errors import Refused, StreamprocError, TallyConflict


def documented_tree() -> dict[str, tuple[str | None, int | None]]:
    """The parent of each error in the docstring, and the exit code stated beside it."""
    tree: dict[str, tuple[str | None, int | None]] = {}
    path: list[str] = []
    for indent, name, code in re.findall(r"^( *)\* (\w+)(?: \((\d)\))?:", errors.__doc__ or "", flags=re.MULTILINE):
        del path[len(indent) // 2 :]
        tree[name] = (path[-1] if path else None, int(code) if code else None)
        path.append(name)
    return tree


def error_classes() -> dict[str, type[StreamprocError]]:
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    return {name: each for name, each in classes.items() if issubclass(each, StreamprocError)}


def test_the_docstring_lists_every_error_below_its_parent() -> None:
    parents = {name: each.__bases__[0].__name__ for name, each in error_classes().items()}
    parents["StreamprocError"] = None  # type: ignore[assignment]
    assert {name: parent for name, (parent, _) in documented_tree().items()} == parents


def test_the_docstring_states_the_exit_codes() -> None:
    classes = error_classes()
    stated = {name: code for name, (_, code) in documented_tree().items() if code is not None}
    assert stated == {name: classes[name].exit_code for name in stated}
    assert all(each.exit_code == Refused.exit_code for each in classes.values() if issubclass(each, Refused))


def test_an_error_keeps_its_message_and_its_data_between_processes() -> None:
    again = pickle.loads(pickle.dumps(TallyConflict("two tallies", partition=3, period=7)))
    assert (str(again), again.partition, again.period) == ("two tallies", 3, 7)
