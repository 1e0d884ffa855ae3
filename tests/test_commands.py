"""The two commands of the README, without a network: how they decide what to install, and with what."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

VENV_PYTHON = """#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m pip --version") [ -e "{log}.no-pip" ] && exit 1; exit 0 ;;
esac
echo "venv: $*" >>{log}
[ -e "{log}.fails" ] && echo "no such wheel" && exit 1
exit 0
"""

PROGRAM = """#!/bin/sh
echo "ran: $_LAGGARD_PROGRAM: $*"
"""

BASE_PYTHON = """#!/bin/sh
case "$*" in
"-m pip --python"*"--version") [ -e "{log}.no-pip-at-all" ] && exit 1; exit 0 ;;
"-c import ensurepip") [ -e "{log}.no-ensurepip" ] && exit 1; exit 0 ;;
-c*) [ -e "{log}.old" ] && exit 1; exit 0 ;;
esac
echo "base: $*" >>{log}
case "$*" in "-m venv"*) cp -r {log}.venv/bin {checkout}/.venv/ ;; esac
exit 0
"""


class Checkout:
    """A checkout whose Pythons only write down what they were asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a checkout"
        self.log = folder / "log"
        (self.folder / "deploy").mkdir(parents=True)
        for name in ("deploy/laggard", "deploy/environment.sh", "pyproject.toml"):
            shutil.copy(ROOT / name, self.folder / name)
        shutil.copytree(ROOT / "deploy/locks", self.folder / "deploy/locks")
        self._program(Path(f"{self.log}.venv/bin/python"), VENV_PYTHON)
        self._program(Path(f"{self.log}.venv/bin/laggard"), PROGRAM)
        self.base = self._program(folder / "python", BASE_PYTHON)

    def _program(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{log}", str(self.log)).replace("{checkout}", f'"{self.folder}"'))
        path.chmod(0o755)
        return path

    def has(self, *what: str) -> None:
        for name in what:
            Path(f"{self.log}.{name}").touch()

    def run(self, *arguments: str, command: str = "deploy/laggard") -> tuple[int, str, str]:
        ended = subprocess.run(
            [self.folder / command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHON": str(self.base)},
        )
        return ended.returncode, ended.stdout, ended.stderr

    def asked(self) -> list[str]:
        lines = self.log.read_text().replace(f"{self.folder}/", "").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


INSTALL = "-m pip install --quiet --no-input --disable-pip-version-check"
LOCKED = f"{INSTALL} --require-hashes --requirement deploy/locks/laggard.txt"
ITSELF = f"{INSTALL} --no-deps --no-build-isolation --editable ."


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_use_installs_and_the_second_does_not(checkout: Checkout) -> None:
    code, out, err = checkout.run("mark", "it hangs")
    assert (code, out) == (0, f"ran: {checkout.folder}/deploy/laggard: mark it hangs\n")
    assert err == f"laggard: installing into {checkout.folder}/.venv; this is done once and takes about a minute ...\n"
    assert checkout.asked() == ["base: -m venv .venv", f"venv: {LOCKED}", f"venv: {ITSELF}"]
    assert checkout.run("up")[::2] == (0, "")
    assert checkout.asked() == []


@pytest.mark.parametrize("name", ["pyproject.toml", "deploy/locks/laggard.txt"])
def test_another_pyproject_or_lock_installs_again(checkout: Checkout, name: str) -> None:
    checkout.run()
    checkout.asked()
    with (checkout.folder / name).open("a") as file:
        file.write("# more\n")
    assert checkout.run()[0] == 0
    assert checkout.asked() == [f"venv: {LOCKED}", f"venv: {ITSELF}"]


def test_without_ensurepip_the_pip_outside_installs(checkout: Checkout) -> None:
    checkout.has("no-ensurepip", "no-pip")
    assert checkout.run()[0] == 0
    assert checkout.asked() == [
        "base: -m venv --without-pip .venv",
        *(f"base: {said.replace('-m pip', '-m pip --python .venv/bin/python')}" for said in (LOCKED, ITSELF)),
    ]


def test_a_link_to_it_finds_the_checkout(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin/lg"
    link.symlink_to(checkout.folder / "deploy/laggard")
    ended = subprocess.run(
        [link, "why"], capture_output=True, text=True, check=True, env={**os.environ, "PYTHON": str(checkout.base)}
    )
    assert ended.stdout == f"ran: {link}: why\n"


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (("old",), "laggard: Python 3.11 or newer is needed, "),
        (
            ("no-pip", "no-pip-at-all"),
            "laggard: pip 22.3 or newer is needed; on Debian: apt install python3-pip (all of",
        ),
        (("fails",), "no such wheel\nlaggard: cannot install the packages that "),
    ],
)
def test_what_is_missing_is_said_and_tried_again(checkout: Checkout, lacking: tuple[str, ...], said: str) -> None:
    checkout.has(*lacking)
    code, out, err = checkout.run()
    assert (code, out) == (1, "")
    assert said in err
    for name in lacking:
        Path(f"{checkout.log}.{name}").unlink()
    assert checkout.run()[0] == 0


@pytest.mark.parametrize(("size", "workers", "types"), [([], 4, True), (["--quick"], 3, False)])
def test_the_tests_command_asks_for_what_tests_need(
    checkout: Checkout, size: list[str], workers: int, *, types: bool
) -> None:
    (checkout.folder / "tests").mkdir()
    shutil.copy(ROOT / "tests/run", checkout.folder / "tests/run")
    for tool in ("ruff", "lint-imports", "mypy", "pytest"):
        checkout._program(Path(f"{checkout.log}.venv/bin/{tool}"), f'#!/bin/sh\necho "{tool}: $*" >>{{log}}\n')
    code, out, _ = checkout.run(*size, "-k", "a b", command="tests/run")
    assert code == 0
    assert out.split("\n") == ["lint: ok", "format: ok", "imports: ok", *["types: ok"] * types, ""]
    asked = checkout.asked()
    locked = LOCKED.replace("laggard.txt", "test.txt")
    assert asked[:3] == ["base: -m venv .venv", f"venv: {locked}", f"venv: {ITSELF}"]
    assert [each for each in asked[3:] if not each.startswith("pytest")] == [
        "ruff: check --output-format concise .",
        "ruff: format --check .",
        "lint-imports: --no-cache",
        *["mypy: .venv/typing/laggard tests deploy/generate deploy/subscribers"] * types,
    ]
    (tested,) = [each for each in asked if each.startswith("pytest")]  # beside the checks, whichever comes first
    asked_for = f"-n {workers} --max-worker-restart 0 --dist loadfile --no-loadscope-reorder"
    given = " ".join([*size, "-k a b"])
    assert re.fullmatch(rf"pytest: {asked_for} (--session-timeout=4500 )?(--basetemp=\S+ )?{given}", tested)
    assert (checkout.folder / ".venv/typing/laggard/pipeline").readlink() == Path("../../../pipeline")
    assert checkout.run()[0] == 0, "what has more installed than it needs is not installed again"
    assert checkout.asked() == []


def test_a_failed_check_fails_the_command_after_all_have_run(checkout: Checkout) -> None:
    (checkout.folder / "tests").mkdir()
    shutil.copy(ROOT / "tests/run", checkout.folder / "tests/run")
    for tool, code in {"ruff": 1, "lint-imports": 0, "mypy": 0, "pytest": 2}.items():
        checkout._program(Path(f"{checkout.log}.venv/bin/{tool}"), f"#!/bin/sh\necho {tool} speaks\nexit {code}\n")
    code, out, err = checkout.run(command="tests/run")
    assert code == 1
    assert out.splitlines() == [
        "pytest speaks",
        *("ruff speaks", "lint: failed (ruff check --output-format concise .)"),
        *("ruff speaks", "format: failed (ruff format --check .)"),
        "imports: ok",
        "types: ok",
    ]
    assert err.splitlines()[-1] == "failed: lint format tests"


def test_the_help_of_the_tests_command() -> None:
    ended = subprocess.run([ROOT / "tests/run", "--help"], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[0].startswith("All checks: ")
    assert "  tests/run --quick " in ended.stdout
