"""Regular expressions meet texts of strangers, and hold the interpreter meanwhile: each takes linear time."""

from __future__ import annotations

import ast
import re
import time
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from laggard.producers.sources.access_log.formats import NAMED, text_format

if TYPE_CHECKING:
    from collections.abc import Iterator

# What `re` keeps for itself.
codes: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

ROOT = Path(__file__).parents[1]
ROOMS: Final = ("operators", "pipeline", "producers")
METHODS: Final = {"search", "match", "fullmatch", "sub", "subn", "findall", "finditer", "split"}
SIZES: Final = (25, 1_000, 10_000, 100_000)
LIMIT_S: Final = {25: 0.25, 1_000: 0.25, 10_000: 0.25, 100_000: 2.0}
"""CPU time: linear ones take up to 24 and 240 ms on a slow machine, quadratic ones 0.3 s and 30 s on a fast one."""

BOUNDED: Final = {
    "pipeline/cli/times.py:_BEFORE": "arguments of a command",
    "pipeline/grafana/definitions.py:_SPAN": "our own dashboards",
    "pipeline/settings/reading.py:": "the configuration, and the environment",
    "producers/sources/access_log/formats.py:_NGINX_DIRECTIVE": "a setting",
    "producers/sources/access_log/formats.py:_APACHE_FIELD": "a setting",
    "producers/sources/access_log/formats.py:_APACHE_TIME": "a setting",
    "producers/sources/access_log/json_lines.py:_GO_PIECE": "64 characters",
    "producers/sources/prometheus/selectors.py:_METRIC": "a setting",
    "producers/trace/ftrace/formats.py:_NAME": "the kernel's, below tracefs",
    "producers/trace/steady.py:_RANDOM": "names of files, of 255 characters",
}
"""Patterns that take more than linear time, by where they are or what that begins with, and why they may."""


class Used:
    """One pattern, where it stands, and how it is used."""

    def __init__(self, place: str, pattern: re.Pattern[Any]) -> None:
        self.place = place
        self.pattern = pattern
        self.methods: set[str] = set()


def compiled(node: ast.Call, known: dict[str, Any]) -> re.Pattern[Any] | None:
    """The pattern of a call of `re`, if it does not depend on anything that is only known when it runs."""
    names = {name: value for name, value in known.items() if isinstance(value, str)}
    try:
        text = eval(compile(ast.Expression(node.args[0]), "pattern", "eval"), {"re": re, **names})
        flags = [keyword.value for keyword in node.keywords if keyword.arg == "flags"] + [
            argument for argument in node.args[1:] if "re." in ast.unparse(argument)
        ]
        value = eval(compile(ast.Expression(flags[0]), "flags", "eval"), {"re": re}) if flags else 0
        return re.compile(text, value)
    except Exception:  # noqa: BLE001 - a text that is only known when it runs
        return None


def used_in(path: Path) -> Iterator[Used]:
    tree = ast.parse(path.read_text())
    known: dict[str, Any] = {}
    named: dict[str, Used] = {}
    place = str(path.relative_to(ROOT))
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ):
                if isinstance(value, ast.Constant | ast.JoinedStr):
                    try:
                        known[name] = eval(compile(ast.Expression(value), "text", "eval"), dict(known))
                    except Exception:  # noqa: BLE001
                        continue
                elif isinstance(value, ast.Call) and ast.unparse(value.func) == "re.compile":
                    pattern = compiled(value, known)
                    if pattern is not None:
                        named[name] = Used(f"{place}:{name}", pattern)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=method)) if method in METHODS:
                pattern = compiled(node, known)
                if pattern is not None:
                    found = Used(f"{place}:{pattern.pattern!r}", pattern)
                    found.methods = {method}
                    yield found
            case ast.Attribute(value=ast.Name(name), attr=method) if name in named and method in METHODS:
                named[name].methods.add(method)
    yield from named.values()


def sample(operations: Any) -> str:
    """A short text that matches, about."""
    text = ""
    for code, value in operations:
        if code is codes.LITERAL:
            text += chr(value)
        elif code in (codes.ANY, codes.NOT_LITERAL):
            text += "x"
        elif code is codes.IN:
            text += next(iter(members(value)), "x")
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += sample(value[2]) * max(1, min(value[0], 50))
        elif code is codes.SUBPATTERN:
            text += sample(value[3])
        elif code is codes.BRANCH:
            text += sample(value[1][0])
        elif code is codes.ATOMIC_GROUP:
            text += sample(value)
    return text


def members(found: Any) -> Iterator[str]:
    """Some characters of a class; of a negated one, some that are seldom excluded."""
    if found and found[0][0] is codes.NEGATE:
        excluded = set(members(found[1:]))
        yield from [character for character in "xa1 -/\"'" if character not in excluded][:3]
        return
    for code, value in found:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.RANGE:
            yield chr(value[0])
            yield chr(value[1])
        elif code is codes.CATEGORY:
            yield {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a"}.get(value, "x")


def sequences(operations: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What leads to each part that is repeated, and one of what it repeats."""
    for number, (code, value) in enumerate(operations):
        lead = before + sample(operations[:number])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[1] > 100:
            yield lead, sample(value[2]) or "x"
            if len(value[2]) == 1 and value[2][0][0] is codes.IN:
                yield from ((lead, character) for character in members(value[2][0][1]))
            yield from sequences(value[2], lead)
        elif code is codes.SUBPATTERN:
            yield from sequences(value[3], lead)
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from sequences(branch, lead)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            yield from sequences(value[2], lead)


def hostile(pattern: re.Pattern[Any], size: int) -> Iterator[str]:
    """Texts that make it try again and again: what it repeats, without what has to come behind."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    found = list(dict.fromkeys(sequences(list(tree))))
    whole = sample(list(tree)) or "x"
    yield whole * (size // len(whole))
    for lead, unit in found:
        yield lead + unit * (size // len(unit)) + "\x00"
        led = lead + unit
        yield led * (size // len(led)) + "\x00"
    for (lead, first), (_, second) in pairwise(found):
        both = first + second
        yield lead + both * (size // len(both)) + "\x00"


def seconds(use: Used, method: str, text: str) -> float:
    subject: Any = text if isinstance(use.pattern.pattern, str) else text.encode("latin-1", "replace")
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        match method:
            case "sub" | "subn":
                getattr(use.pattern, method)("" if isinstance(subject, str) else b"", subject)
            case "finditer":
                for _ in use.pattern.finditer(subject):
                    pass
            case _:
                getattr(use.pattern, method)(subject)
        taken.append(time.thread_time() - begun)
        if taken[-1] < min(LIMIT_S.values()) or taken[-1] > 1.0:
            break
    return min(taken)


def is_bounded(use: Used, place: str) -> bool:
    return use.place == place or (place.endswith(":") and use.place.startswith(place))


MODULES: Final = [
    path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if "import re\n" in path.read_text()
]


def slow(use: Used) -> Iterator[str]:
    for size in SIZES:
        for method in sorted(use.methods or {"search"}):
            for text in hostile(use.pattern, size):
                took = seconds(use, method, text)
                if took > LIMIT_S[size]:
                    yield f"{method} of {text[:40]!r}... of {len(text)} characters takes {took:.2f} s"
                    return


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_each_pattern_takes_linear_time(path: Path) -> None:
    foreign = [use for use in used_in(path) if not any(is_bounded(use, place) for place in BOUNDED)]
    assert {use.place: told for use in foreign if (told := list(slow(use)))} == {}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r'^"(?P<name>.*)" .*\bnid=(?P<nid>0x[0-9a-f]+|\d+)\b', "match"),
        (r"\d+$", "search"),
        (r"\s*(\S+)\s+x\s*", "search"),
    ],
)
def test_those_that_do_not_are_found(pattern: str, method: str) -> None:
    use = Used("here", re.compile(pattern))
    use.methods = {method}
    assert list(slow(use))


@pytest.mark.parametrize("name", NAMED)
def test_the_forms_of_access_logs_take_linear_time(name: str) -> None:
    use = Used(name, text_format(name).pattern)
    use.methods = {"findall", "fullmatch"}
    assert list(slow(use)) == []


def test_they_are_all_seen() -> None:
    patterns = [use for path in MODULES for use in used_in(path)]
    assert len(patterns) > 100
    assert [place for place in BOUNDED if not any(is_bounded(use, place) for use in patterns)] == []
    assert sum(bool(use.methods) for use in patterns) > 90
