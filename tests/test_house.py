"""The house: which room may import what, what operators may not touch, and that the package holds all of it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import packages_distributions
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("operators", "pipeline", "producers")

MODULES = sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))

ALLOWED_IN_OPERATORS = {"numpy", "scipy", "river", "sklearn", "laggard.operators"}
FORBIDDEN_IN_OPERATORS = {
    *("asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "pickle", "random", "secrets"),
    *("shelve", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid"),
}
WORDS = yaml.safe_load((ROOT / "tests/prose/styles/Laggard/Words.yml").read_text())["swap"]
"""Words for which plain English has others, with these."""

TRANSLATED = re.compile(rf"\b({'|'.join(WORDS)})\b")

SEEDED = {"default_rng", "Generator", "BitGenerator", "PCG64", "Philox", "SeedSequence"}


@cache
def imported(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and dotted name of everything imported, also inside functions and for type checking only."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: expected an absolute import"
            found += ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
    return found


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def backwards(room: str, name: str) -> bool:
    """Whether code of this room must not import this name."""
    if room == "operators":
        if name.partition(".")[0] in sys.stdlib_module_names:
            return within(name, FORBIDDEN_IN_OPERATORS)
        return not within(name, ALLOWED_IN_OPERATORS)
    if room == "producers" and name.startswith("laggard"):
        return not within(name, {"laggard.producers", "laggard.pipeline.core.records"})
    return False


def wrong_imports(room: str, tree: ast.AST) -> list[str]:
    return [f"{line}: {name}" for line, name in imported(tree) if backwards(room, name)]


@cache
def tree_of(path: Path) -> ast.AST:
    return ast.parse((ROOT / path).read_text())


def test_no_arrow_runs_backwards() -> None:
    wrong = {str(path): wrong_imports(path.parts[0], tree_of(path)) for path in MODULES}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("operators", "import math, time", ["1: time"]),
        (
            "operators",
            "def f():\n    from laggard.pipeline.core.records import Frame",
            ["2: laggard.pipeline.core.records.Frame"],
        ),
        ("operators", "from laggard.operators.ranking import Ranking\nimport numpy.linalg", []),
        ("operators", "import numpydoc", ["1: numpydoc"]),
        ("operators", "from laggard import producers", ["1: laggard.producers"]),
        ("producers", "from laggard.pipeline.core.records.frame import Frame\nimport psutil, os", []),
        ("producers", "from laggard.pipeline.core import bus", ["1: laggard.pipeline.core.bus"]),
        ("producers", "import laggard.operators.ranking", ["1: laggard.operators.ranking"]),
        ("pipeline", "from laggard.operators.ranking import Ranking", []),
    ],
)
def test_the_rule_itself(room: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(room, ast.parse(source)) == wrong


def test_texts_are_in_plain_english() -> None:
    assert not list(translated())


def translated() -> Iterator[str]:
    """Yield the places of words for which plain English has others, in code, on the page and in documents."""
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and TRANSLATED.search(node.value):
                yield f"{path}:{node.lineno}: {node.value[:80]!r}"
    views = (ROOT / "pipeline/investigator/assets/views").rglob("*.js")
    for path in (ROOT / "README.md", *(ROOT / "deploy").rglob("*.md"), *views):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if TRANSLATED.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line[:80]!r}"


def forbidden_in_operators(tree: ast.AST) -> Iterator[str]:
    """What reads, prints or draws without a seed."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("open" | "print" | "input" | "eval" | "exec" as name)):
                yield f"{node.lineno}: {name}"
            case ast.Call(func=ast.Attribute(attr="default_rng"), args=[], keywords=[]):
                yield f"{node.lineno}: expected a seed"
            case ast.Attribute(value=ast.Attribute(attr="random"), attr=name) if name not in SEEDED:
                yield f"{node.lineno}: expected a seeded generator"


def test_operators_read_nothing_and_draw_nothing_unseeded() -> None:
    operators = [path for path in MODULES if path.parts[0] == "operators"]
    wrong = {str(path): list(forbidden_in_operators(tree_of(path))) for path in operators}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_what_operators_may_not_do_is_found() -> None:
    source = "open(a)\nnp.random.normal()\nnp.random.default_rng()\nnp.random.default_rng(1)\nself.open()"
    assert list(forbidden_in_operators(ast.parse(source))) == [
        *("1: open", "3: expected a seed", "2: expected a seeded generator"),
    ]


# What reads files here, and whose they are.
READERS: Final = {
    "sources/access_log": "the user's logs",
    "host/cpu_limits.py": "the kernel's, below /sys",
    "diagnosis/attaching.py": "in a child, as the user whose they are",
    "diagnosis/confinement.py": "the kernel's of the child itself",
    "diagnosis/symbolizer.py": "in a child, its own program",
    "diagnosis/symbols.py": "the kernel's symbols, and a file in memory",
    "sources/files.py": "the user's recordings",
    "system/foreign.py": "everybody else's",
    "system/open_files.py": "the kernel's, kept open",
    "sources/lines.py": "the user's pipes",
    "sources/prometheus": "the user's token",
    "trace": "the user's traces, and the kernel's below tracefs",
}
READS: Final = {
    *("open", "os.open", "os.listdir", "os.scandir", "os.readlink", "os.walk"),
    *("Path.open", "Path.read_bytes", "Path.read_text", "Path.readlink", "Path.iterdir", "Path.glob"),
}


def unbounded_reads(tree: ast.AST) -> Iterator[str]:
    """What opens a file or lists a folder, however large it is."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("open")):
                yield f"{node.lineno}: open"
            case ast.Call(func=ast.Attribute(value=ast.Name("os"), attr=name)) if f"os.{name}" in READS:
                yield f"{node.lineno}: os.{name}"
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if f"Path.{name}" in READS and not (
                isinstance(value, ast.Attribute) or (isinstance(value, ast.Name) and value.id in {"os", "self"})
            ):
                yield f"{node.lineno}: .{name}"


def test_what_others_control_is_read_in_one_place() -> None:
    producers = [
        path
        for path in MODULES
        if path.parts[0] == "producers" and not READERS.keys() & {*accumulate(path.parts[1:], "{}/{}".format)}
    ]
    wrong = {str(path): list(unbounded_reads(tree_of(path))) for path in producers}
    assert {path: found for path, found in wrong.items() if found} == {}


# What parses bytes of programs, and who may import it: what runs in the child without rights.
PARSERS: Final = {
    "laggard.producers.diagnosis.elf": {"diagnosis/symbolizer.py", "trace/boundaries/elf.py"},  # the latter its headers
    "laggard.producers.diagnosis.frames.Frames": {"diagnosis/elf.py"},
    "laggard.producers.diagnosis.dumps.parse_dump": {"diagnosis/symbolizer.py"},
    "laggard.producers.diagnosis.symbolizer": set(),
}


@pytest.mark.parametrize("parser", PARSERS)
def test_what_programs_say_of_themselves_is_parsed_in_a_child(parser: str) -> None:
    importing = {
        "/".join(path.parts[1:])
        for path in MODULES
        if path.parts[0] != "operators" and any(within(name, {parser}) for _, name in imported(tree_of(path)))
    }
    assert importing == PARSERS[parser]


def test_reads_without_a_bound_are_found() -> None:
    source = "open(a)\nos.listdir(a)\nPath(a, b).read_text()\npath.open()\nself.open()\nself._files.open(a)\nnames(a)"
    assert list(unbounded_reads(ast.parse(source))) == ["1: open", "2: os.listdir", "3: .read_text", "4: .open"]


def test_only_the_modules_of_methods_know_concrete_operators() -> None:
    shared = {f"laggard.operators.{name}" for name in ("contract", "ranking", "calibration", "comparison")}
    # What these answer, as `ranking` is for the others.
    shared |= {
        "laggard.operators.regression.models",
        "laggard.operators.covariance.results",
        "laggard.operators.requests.results",
        "laggard.operators.saturation.results",
    }
    # The rules by which requests are one cluster: its words follow the same ones.
    shared |= {"laggard.operators.requests.tries", "laggard.operators.requests.work"}
    for path in MODULES:
        # The settings of a method name the types of their choices.
        if path.parts[0] == "pipeline" and path.name not in {"method.py", "settings.py"} and "hosts" not in path.parts:
            names = [name for _, name in imported(tree_of(path))]
            concrete = [name for name in names if name.startswith("laggard.operators.") and not within(name, shared)]
            assert not concrete, path


def test_third_party_imports_are_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(one for name in extras if name != "test" for one in extras[name])]
    declared = {re.split(r"[<>=!~\[; ]", one)[0].lower() for one in wanted}
    distributions = packages_distributions()
    for path in MODULES:
        for line, name in imported(tree_of(path)):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names | {"laggard"}:
                found = {distribution.lower().replace("_", "-") for distribution in distributions.get(top, [top])}
                assert found & declared, f"{path}:{line}: {top} is not among the dependencies"


def test_every_folder_is_a_listed_package() -> None:
    folders = {"laggard." + ".".join(path.parent.parts) for path in MODULES}
    data = {"laggard.deploy"}  # nothing to import, but what `laggard grafana` publishes
    assert sorted(folders | data) == sorted(PROJECT["tool"]["setuptools"]["packages"])
    assert [folder for folder in folders if not (ROOT / folder[8:].replace(".", "/") / "__init__.py").is_file()] == []


def test_no_file_of_tests_is_taken_for_another() -> None:
    """pytest knows a file in a package by its name from there on: of two that are called alike one would run twice."""
    names: dict[Path, Path] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        top = path
        while (top.parent / "__init__.py").is_file():
            top = top.parent
        if top is not path:
            assert names.setdefault(path.relative_to(top.parent), path) == path


@pytest.mark.slow
def test_a_wheel_holds_every_module(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    published = [path.relative_to(ROOT) for path in (ROOT / "deploy/grafana/dashboards").glob("*.json")]
    assert published
    assets = [path.relative_to(ROOT) for path in (ROOT / "pipeline/investigator/assets").rglob("*") if path.is_file()]
    shutil.copytree(ROOT / "deploy", tree / "deploy")
    build = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", build, str(tmp_path)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    names = zipfile.ZipFile(tmp_path / built.stdout.split()[-1]).namelist()
    assert {f"laggard/{path}" for path in (*MODULES, *published, *assets)} <= set(names)
    assert {f"laggard/{room}/py.typed" for room in ROOMS} <= set(names)
    assert not [name for name in names if name.endswith(".py") and Path(name).relative_to("laggard") not in MODULES]
