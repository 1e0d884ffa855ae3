"""The locked dependencies: what they must hold, and that they are of this pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = ROOT / "deploy/locks"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: Final = {
    "laggard": (),
    "image": ("diagnose", "grafana", "librdkafka"),
    "test": ("test", "diagnose", "grafana", "librdkafka"),
}
PYTHONS: Final = ("3.11", "3.12", "3.13")
RENEW: Final = "deploy/locks/renew writes them anew"

ENTRY: Final = re.compile(r"(?P<said>\S+==[^\s;]+(?: ; [^\\\n]+)?)(?: \\\n    --hash=sha256:[0-9a-f]{64})+")


def read(name: str) -> list[Requirement]:
    """The locked packages; fails for any line that is none."""
    text = re.sub("^#.*\n", "", (LOCKS / f"{name}.txt").read_text(), flags=re.MULTILINE)
    entries = list(ENTRY.finditer(text))
    assert "\n".join(entry.group() for entry in entries) == text.strip(), f"expected only versions with hashes; {RENEW}"
    return [Requirement(entry["said"].strip()) for entry in entries]


def environment(python: str) -> dict[str, str]:
    here = {name: str(value) for name, value in default_environment().items()}
    return {**here, "extra": "", "python_version": python, "python_full_version": f"{python}.9"}


def versions(locked: Iterable[Requirement], where: dict[str, str]) -> dict[str, str]:
    found = [each for each in locked if each.marker is None or each.marker.evaluate(where)]
    names: dict[str, str] = {canonicalize_name(each.name): str(each.specifier).removeprefix("==") for each in found}
    assert len(names) == len(found), "a package is locked to two versions"
    return names


def wanted(project: Mapping[str, Any], extras: Iterable[str]) -> list[Requirement]:
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in extras:
        texts += project["project"]["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


def wrong(requirements: Iterable[Requirement], locked: Mapping[str, str], where: dict[str, str]) -> list[str]:
    """What is asked for and not locked so."""
    return [
        f"{one}: {locked.get(canonicalize_name(one.name), 'missing')}"
        for one in requirements
        if (one.marker is None or one.marker.evaluate(where))
        and not one.specifier.contains(locked.get(canonicalize_name(one.name), "0.dev0"), prereleases=True)
    ]


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_locked_is_what_pyproject_asks_for(name: str, python: str) -> None:
    where = environment(python)
    assert wrong(wanted(PROJECT, EXTRAS[name]), versions(read(name), where), where) == [], RENEW


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_has_every_needed_package_and_no_other(name: str) -> None:
    """By what the packages themselves say; the tests' environment has all of them."""
    where = {**environment("3.11"), **{name: str(value) for name, value in default_environment().items()}}
    needed: dict[str, set[str]] = {}
    todo = [one for one in wanted(PROJECT, EXTRAS[name]) if one.marker is None or one.marker.evaluate(where)]
    while todo:
        one = todo.pop()
        package = canonicalize_name(one.name)
        if package in needed and one.extras <= needed[package]:
            continue
        needed.setdefault(package, set()).update(one.extras)
        for text in requires(package) or ():
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({**where, "extra": x}) for x in ("", *one.extras)):
                todo.append(further)
    assert set(needed) == set(versions(read(name), where)), RENEW


def test_all_locks_have_the_same_versions() -> None:
    for python in PYTHONS:
        tested = versions(read("test"), environment(python))
        for name in ("laggard", "image"):
            assert versions(read(name), environment(python)).items() <= tested.items()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dependencies": ["numpy>=99"]}, "numpy>=99: "),
        ({"dependencies": ["a-new-package>=1"]}, "a-new-package>=1: missing"),
    ],
)
def test_a_lock_that_disagrees_is_found(changed: dict[str, Any], said: str) -> None:
    project = {**PROJECT, "project": {**PROJECT["project"], **changed}}
    where = environment("3.12")
    (found,) = wrong(wanted(project, ()), versions(read("laggard"), where), where)
    assert found.startswith(said)


def test_the_image_installs_nothing_else() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    installs = re.findall(r"pip install (.*?)(?: \\\n|\n)", dockerfile)
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "deploy/locks/image.txt" in installs[0]
    assert {"--no-deps", "--no-build-isolation"} <= set(installs[1].split())
