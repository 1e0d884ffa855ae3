"""Where source can be changed, how, and which of these changes a seed draws."""

from __future__ import annotations

import ast
import hashlib
import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COMPARISON, CONSTANT, LINE, BRANCH = KINDS = ("comparison", "constant", "line", "branch")
"""A comparison is turned round, a constant changed, a line left out, a branch swapped."""

_TURNED: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", ">"),
    ast.Gt: (">", "<"),
    ast.LtE: ("<=", ">="),
    ast.GtE: (">=", "<="),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
"""Each operator's pattern in the source, and what stands there instead."""

_LINES: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: which, relative to the top of the repository.
        line: where, counted from 1.
        kind: one of `KINDS`.
        place: the function or class around it; empty at the top of a module.
        lines: the lines that run if it does: from the begin of its statement to its own end.
        at_import: whether these run when the module is imported, and not when a function is called.
        span: the bytes that go.
        new: what comes in their place.
        before: the first line that differs, without the change.
        after: the same with the change.
        twin: how many mutants before this one in the file look exactly the same.

    """

    file: str
    line: int
    kind: str
    place: str
    lines: range
    at_import: bool
    span: tuple[int, int]
    new: bytes
    before: str
    after: str
    twin: int = 0

    @property
    def id(self) -> str:
        """A name that stays the same while other lines change, so that other runs can be compared with this one."""
        what = (self.file, self.kind, self.place, self.before, self.after, str(self.twin))
        return hashlib.sha256("\0".join(what).encode()).hexdigest()[:10]

    def applied(self, source: bytes) -> bytes:
        begin, end = self.span
        return source[:begin] + self.new + source[end:]


def drawn(root: Path, mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """A random choice of those that compile, of each kind as many as of the others where there are as many.

    The order follows from each mutant's own name and the seed: another mutant that comes or goes changes no more than
    one place.
    """
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    for mutant in sorted(mutants, key=lambda one: hashlib.sha256(f"{seed} {one.id}".encode()).digest()):
        by_kind[mutant.kind].append(mutant)
    turns = (one for turn in zip_longest(*by_kind.values()) for one in turn if one and _compiles(root, one))
    chosen = [one for one, _ in zip(turns, range(count), strict=False)]
    return sorted(chosen, key=lambda one: (one.file, one.span, one.kind))


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """All mutants of a file."""
    source = path.read_bytes()
    finder = _Finder(str(path.relative_to(root)), source)
    finder.visit(ast.parse(source))
    return finder.found


def _compiles(root: Path, mutant: Mutant) -> bool:
    try:
        compile(mutant.applied((root / mutant.file).read_bytes()), mutant.file, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


@dataclass
class _Finder(ast.NodeVisitor):
    """Walks through a module and leaves out what no test can or should tell: annotations, messages, docstrings."""

    file: str
    source: bytes
    found: list[Mutant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begins = [0]
        for line in self.source.splitlines(keepends=True):
            self._begins.append(self._begins[-1] + len(line))
        self._around: list[str] = []
        self._functions = 0
        self._statement: ast.stmt | None = None
        self._twins: dict[str, int] = {}

    # What is walked through.

    def visit(self, node: ast.AST) -> None:
        outer = self._statement
        if isinstance(node, ast.stmt):
            self._statement = node
            if self._functions and isinstance(node, _LINES) and not _is_talk(node):
                self._add(LINE, node, b"pass")
        super().visit(node)
        self._statement = outer

    def _within(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._around.append(node.name)
        for inner in node.body:
            self.visit(inner)
        self._around.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one)):
            self.visit(default)
        self._functions += 1
        self._within(node)
        self._functions -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not _is_talk(node):
            self.generic_visit(node)

    def _leave_out(self, node: ast.AST) -> None:
        """Errors' texts, and what only tells readers and tools that something holds."""

    visit_Raise = visit_Assert = visit_Import = visit_ImportFrom = visit_TypeAlias = _leave_out  # noqa: N815 - as above
    # Before Python 3.12 the positions of the parts of such a text in the source are unknown.
    visit_JoinedStr = _leave_out  # noqa: N815 - as above

    # What is changed.

    def visit_If(self, node: ast.If) -> None:
        names = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
        if names & {"TYPE_CHECKING", "__name__"}:
            return
        self._swap(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._swap(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._swap(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._swap(test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._swap(node.guard)
        self.generic_visit(node)

    def _swap(self, test: ast.expr) -> None:
        plain = isinstance(test, ast.Compare) and len(test.ops) == 1
        if plain and not isinstance(test.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE):  # type: ignore[attr-defined]
            return  # the comparison turned round is the same
        self._add(BRANCH, test, b"not (" + self._text(test) + b")")

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._add_between(BRANCH, left, right, old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right, operator in zip(operands, node.comparators, node.ops, strict=False):
            self._add_between(COMPARISON, left, right, *_TURNED[type(operator)])
        for each in operands:
            self._rename(each)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._add(CONSTANT, node, str(not node.value).encode())
            case int():
                self._add(CONSTANT, node, str(node.value + 1).encode())
            case float():
                self._add(CONSTANT, node, repr(node.value * 2 if node.value else 1.0).encode())

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        for argument in (node.func, *node.args):
            self.visit(argument)
        for keyword in node.keywords:
            if (called, keyword.arg) != ("zip", "strict"):  # asserts, as the linter wants it
                self.visit(keyword.value)

    # Of texts only those by which something is found or told apart: others are for people.

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            self._rename(key)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id in {"Literal", "Annotated"}):
            self._rename(node.slice)
            self.generic_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._rename(node.value)
        self.generic_visit(node)

    def _rename(self, node: ast.expr | None) -> None:
        match node:
            case ast.Constant(value=str() as text) if node.lineno == node.end_lineno and " " not in text:
                self._add(CONSTANT, node, repr(text + "x").replace("'", '"').encode())

    # How it is noted.

    def _offset(self, line: int, column: int) -> int:
        return self._begins[line - 1] + column

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._offset(node.lineno, node.col_offset)
        return begin, self._offset(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr) -> bytes:
        begin, end = self._place(node)
        return self.source[begin:end]

    def _add_between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        begin, end = self._place(left)[1], self._place(right)[0]
        words = rf"\b{old}\b" if old[0].isalpha() else old
        if found := re.search(words.encode(), self.source[begin:end]):
            self._note(kind, (begin + found.start(), begin + found.end()), new.encode())

    def _add(self, kind: str, node: ast.expr | ast.stmt, new: bytes) -> None:
        self._note(kind, self._place(node), new)

    def _note(self, kind: str, span: tuple[int, int], new: bytes) -> None:
        assert self._statement is not None
        first, last = (bisect_right(self._begins, offset) for offset in span)
        begin, end = self._begins[first - 1], self._begins[last]
        was, becomes = self.source[begin:end], self.source[begin : span[0]] + new + self.source[span[1] : end]
        before, after = (text.decode().splitlines()[0].strip() for text in (was, becomes))
        mutant = Mutant(
            self.file,
            first,
            kind,
            ".".join(self._around),
            range(self._statement.lineno, last + 1),
            not self._functions,
            span,
            new,
            before,
            after,
        )
        twin = self._twins[mutant.id] = self._twins.get(mutant.id, -1) + 1
        self.found.append(replace(mutant, twin=twin))


def _is_talk(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, tells a log or readers something, or says what a subclass is to do."""
    match node:
        case ast.AnnAssign(value=None) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in {"_logger", "logger", "logging", "warnings"}
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
    return False
