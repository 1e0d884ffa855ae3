"""A release: what it is made of, what it says of itself, and what stops it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.test_locks import read

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what its schemas are read with
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
LOCK = "deploy/locks/image.txt"


def git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def released(checkout: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.generate.release", str(folder), "--builder", "urn:example:ci"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of its own with the files of this one."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "pictures")
    for room in ("operators", "pipeline", "producers", "deploy"):
        shutil.copytree(ROOT / room, folder / room, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All of it")
    return folder


@pytest.fixture(scope="module")
def files(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """What a release wrote, by the end of its name."""
    done = released(checkout, tmp_path_factory.mktemp("release") / "out")
    assert done.returncode == 0, done.stderr
    found = [Path(line) for line in done.stdout.splitlines()]
    return {path.name.removeprefix("laggard-0.1.0"): path for path in found}


@pytest.mark.slow
def test_a_release_is_whole(files: Mapping[str, Path]) -> None:
    assert sorted(files) == ["-py3-none-any.whl", ".cdx.json", ".provenance.json", "SHA256SUMS"]
    folder = files["SHA256SUMS"].parent
    assert sorted(folder.iterdir()) == sorted(files.values())
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count(": OK\n") == 3


@pytest.mark.slow
def test_the_same_commit_gives_the_same_wheel(checkout: Path, files: Mapping[str, Path], tmp_path: Path) -> None:
    assert released(checkout, tmp_path / "again").returncode == 0
    wheel = files["-py3-none-any.whl"]
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.slow
def test_provenance_says_of_what_it_was_made(files: Mapping[str, Path]) -> None:
    statement = json.loads(files[".provenance.json"].read_text())
    told = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    made = [files[end] for end in ("-py3-none-any.whl", ".cdx.json")]
    assert told == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    predicate = statement["predicate"]
    assert predicate["runDetails"]["builder"]["id"] == "urn:example:ci"
    assert predicate["buildDefinition"]["internalParameters"]["baseImage"].startswith("docker.io/library/python:3.11.")
    commit, image, _ = predicate["buildDefinition"]["resolvedDependencies"]
    assert len(commit["digest"]["gitCommit"]) == 40
    assert image == {"uri": LOCK, "digest": {"sha256": hashlib.sha256((ROOT / LOCK).read_bytes()).hexdigest()}}


@pytest.mark.slow
def test_the_bill_of_materials_is_valid_and_whole(files: Mapping[str, Path]) -> None:
    text = files[".cdx.json"].read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components: dict[str, Any] = {each["bom-ref"]: each for each in json.loads(text)["components"]}
    locked = [f"pkg:pypi/{each.name}@{str(each.specifier).removeprefix('==')}" for each in read("image")]
    assert set(locked) == {name for name in components if name.startswith("pkg:pypi/")}
    assert all(components[name]["externalReferences"][0]["hashes"] for name in locked)
    assert any(components[name].get("licenses") for name in locked)
    page = {each["name"]: each["version"] for each in components.values() if each["bom-ref"].startswith("pkg:npm/")}
    vendored = json.loads((ROOT / "pipeline/investigator/assets/packages/package.json").read_text())["dependencies"]
    assert page == vendored


def test_what_cannot_be_released_is_not(checkout: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (checkout / "new").touch()
    done = released(checkout, out)
    (checkout / "new").unlink()
    said = "release: the checkout has changes (?? new); commit or stash them\n"
    assert (done.returncode, done.stderr, out.exists()) == (1, said, False)
    out.mkdir()
    (out / "mine").touch()
    done = released(checkout, out)
    assert (done.returncode, done.stderr) == (1, f"release: {out} has files; choose an empty or new folder\n")
    assert [path.name for path in out.iterdir()] == ["mine"]
