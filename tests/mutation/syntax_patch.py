"""Replaces one piece of a module's syntax tree by another, to break a copy of the project on purpose.

A mutation names a function and two fragments of Python. The fragments are compared with the function as syntax trees, so
formatting, comments, line breaks and redundant parentheses do not matter.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

PROJECT = Path(__file__).resolve().parents[2]

NOT_COPIED = (".*", "out", "__pycache__", "*.egg-info", "node_modules", "*.jar", "*.whl")
"""File name patterns that a copy of the project leaves out; another test process may be downloading some of these files."""


@dataclass(frozen=True)
class Mutation:
    """One deliberate fault."""

    name: str
    """A sentence that says what the broken program does."""
    module: str
    """The dotted name of the module, such as `streamproc.synthesizer.worker`."""
    function: str
    """The qualified name of the function, method or class; an empty string for the whole module."""
    find: str
    """An expression, or one or more consecutive statements, that occurs exactly once in the function."""
    replace: str
    """What takes its place; an empty string deletes the statements."""


class MutationDoesNotApply(Exception):
    """The code does not contain what a mutation replaces, or contains it more than once."""

    def __init__(self, mutation: Mutation, reason: str) -> None:
        super().__init__(f"mutation {mutation.name!r}: {reason}. Adapt it to the code.")


def mutate(source: str, mutation: Mutation) -> str:
    """Return the source of a module with the mutation applied. Raises MutationDoesNotApply."""
    module = ast.parse(source)
    function = _find_function(module, mutation)
    find, replace = _parse(mutation.find, mutation), _parse(mutation.replace, mutation)
    if _dump(find) == _dump(replace):
        raise MutationDoesNotApply(mutation, "it replaces a fragment by the same fragment")
    old, new = _single_expression(find), _single_expression(replace)
    if old is not None and new is not None:
        found = _replace_expression(function, old, new)
    else:
        found = _replace_statements(function, find, replace)
    if found != 1:
        where = f"{mutation.module}:{mutation.function}".rstrip(":")
        raise MutationDoesNotApply(mutation, f"its fragment occurs {found} times in {where}, not exactly once")
    return ast.unparse(ast.fix_missing_locations(module)) + "\n"


def source_file(mutation: Mutation, project: Path = PROJECT) -> Path:
    """The file of the mutation's module below the root of a project. Raises MutationDoesNotApply if there is none."""
    file = project.joinpath(*mutation.module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise MutationDoesNotApply(mutation, f"there is no module {mutation.module}")
    return file


@contextmanager
def applied(mutation: Mutation, project: Path) -> Iterator[None]:
    """Break this copy of the project within the block, and restore it afterwards. Raises MutationDoesNotApply."""
    file = source_file(mutation, project)
    sound = file.read_text()
    file.write_text(mutate(sound, mutation))
    try:
        yield
    finally:
        file.write_text(sound)


@contextmanager
def project_copy() -> Iterator[Path]:
    """The root of a temporary copy of the project."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        yield copy


def _parse(fragment: str, mutation: Mutation) -> list[ast.stmt]:
    try:
        return ast.parse(dedent(fragment).strip("\n")).body
    except SyntaxError as error:
        raise MutationDoesNotApply(mutation, f"its fragment {fragment!r} is not Python: {error.msg}") from None


def _find_function(module: ast.Module, mutation: Mutation) -> ast.AST:
    """The definition with the mutation's qualified name; the module itself if the name is empty."""
    found: ast.AST = module
    for name in mutation.function.split(".") if mutation.function else ():
        definitions = [
            node
            for node in getattr(found, "body", ())
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
        ]
        if not definitions:
            raise MutationDoesNotApply(mutation, f"module {mutation.module} has no {mutation.function}")
        # A property and its setter, and overloads, have the same name: the last one is the implementation.
        found = definitions[-1]
    return found


def _single_expression(statements: Sequence[ast.stmt]) -> ast.expr | None:
    """The expression, if the fragment is nothing else."""
    first = statements[0] if len(statements) == 1 else None
    return first.value if isinstance(first, ast.Expr) else None


def _dump(nodes: Sequence[ast.AST]) -> list[str]:
    return [ast.dump(node) for node in nodes]


class _ExpressionReplacer(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old = ast.dump(old)
        self._new = new
        self.found = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._old:
            self.found += 1
            return self._new
        self.generic_visit(node)
        return node


def _replace_expression(function: ast.AST, old: ast.expr, new: ast.expr) -> int:
    replacer = _ExpressionReplacer(old, new)
    replacer.visit(function)
    return replacer.found


def _replace_statements(function: ast.AST, find: list[ast.stmt], replace: list[ast.stmt]) -> int:
    """Replace each run of consecutive statements that equals `find`; returns how many there were."""
    wanted = _dump(find)
    places = [
        (block, start)
        for node in ast.walk(function)
        for block in (getattr(node, field, None) for field in ("body", "orelse", "finalbody"))
        if isinstance(block, list)
        for start in range(len(block) - len(wanted) + 1)
        if wanted and _dump(block[start : start + len(wanted)]) == wanted
    ]
    for block, start in places:
        block[start : start + len(wanted)] = replace
        if not block:
            block.append(ast.Pass())
    return len(places)
