"""The texts of the project, as Markdown for a prose linter: each line stands where it stands in its file."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECTIONS: Final = {"Args:", "Attributes:", "Parameters:", "Raises:", "Returns:", "Yields:"}
_ITEM: Final = re.compile(r" {4}([\w.*]+): ")
_PLACE: Final = re.compile(r"\{[\w.:!,%<>]*\}|%[sdrf]")
_DIRECTIVE: Final = re.compile(r"#\s*(!|noqa|type:|fmt:|pragma|ruff:|-\*-|mypy:)")
_SENTENCE: Final = re.compile(r"[A-Za-z]{2,},? [a-z]{2,},? (`|[a-z]+)")
_NO_SENTENCE: Final = re.compile(r"\b(SELECT|CREATE|INSERT|DELETE|UPDATE|PRAGMA|FROM|WHERE)\b|\\[bdsw]|\[\^|^[{<#]")
_STRING_OR_COMMENT: Final = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(\#[^\n]*)""",
    re.DOTALL,
)
_SCRIPT_STRING: Final = re.compile(r"""(["'`])((?:\\.|(?!\1).)*)\1""")


def comments(path: Path) -> str:
    """Return the docstrings and comments of a Python file."""
    source = path.read_text(encoding="utf-8")
    lines = [""] * (source.count("\n") + 2)
    for node in _docstrings(ast.parse(source)):
        for number, line in enumerate(_markdown(str(node.value)), node.lineno):
            lines[number] = line
    before = (0, 0)
    for number, column, code, comment in _comments(source):
        if not _DIRECTIVE.match(comment):
            alone = not code.strip()
            follows = alone and before == (number - 1, column)
            lines[number] += ("  " if follows or lines[number] else "- ") + comment[1:].removeprefix(" ")
            before = (number, column) if alone else (0, 0)
    return "\n".join(lines[1:])


def messages(path: Path) -> str:
    """Return the strings of a Python file or of a script of the page that read like a sentence."""
    source = path.read_text(encoding="utf-8")
    lines = [""] * (source.count("\n") + 2)
    for number, text in _strings(source) if path.suffix == ".py" else _script_strings(source):
        if _SENTENCE.search(text) and not _NO_SENTENCE.search(text):
            lines[number] += f"{'  ' if lines[number] else '- '}{text}"
    return "\n".join(lines[1:])


def names(path: Path) -> str:
    """Return the names of the tests in a file, in words."""
    found = (re.match(r"\s*(?:async )?def test_(\w+)", line) for line in path.read_text(encoding="utf-8").splitlines())
    return "\n".join(f"- {each[1].replace('_', ' ')}" if each else "" for each in found)


def _comments(source: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the line and column of each comment, the code before it on its line, and the comment."""
    number, at = 1, 0
    for found in _STRING_OR_COMMENT.finditer(source):
        if found[1]:
            number, at = number + source.count("\n", at, found.start()), found.start()
            begin = source.rfind("\n", 0, at) + 1
            yield number, at - begin, source[begin:at], found[1]


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that are statements: docstrings, and those below a constant."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as constant):
                yield constant


def _markdown(docstring: str) -> Iterator[str]:
    """Yield the lines of a docstring: its sections become lists, and its examples are left out."""
    first, *rest = docstring.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    yield f"- {first}"
    section = False
    for line in (each[indent:] for each in rest):
        if line in _SECTIONS:
            section = True
            yield ""
        elif section and line.startswith("    "):
            item = _ITEM.match(line)
            yield f"- {line[item.end() :]}" if item else f"  {line.lstrip()}"
        else:
            section = section and not line
            yield "" if line.startswith("    ") else line


def _strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings that a program uses, with their lines."""
    tree = ast.parse(source)
    passed = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(each) for each in ast.walk(node)}
            parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            yield node.lineno, _flat("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            text = node.value.split("\n")
            if 0 < len(text) - 1 <= (node.end_lineno or 0) - node.lineno:
                yield from enumerate(map(_flat, text), node.lineno)
            else:
                yield node.lineno, _flat(node.value)


def _script_strings(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            for found in _SCRIPT_STRING.finditer(line):
                yield number, _flat(re.sub(r"\$\{[^}]*\}", "{}", found[2]))


def _flat(text: str) -> str:
    """Put code in the place of values, so that the rules pass over them."""
    text = " ".join(text.split())
    return _PLACE.sub(lambda found: "x" if text[: found.start()].count("`") % 2 else "`x`", text)
