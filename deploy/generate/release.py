"""Build a release: `python -m deploy.generate.release FOLDER`, from a clean checkout, in the environment of the tests.

It writes the wheel, built from the commit alone, and an SBOM (CycloneDX 1.6) of the image's packages, with the hashes
of all files that the lock allows. It also writes provenance as an in-toto statement (SLSA 1.0), and SHA256SUMS of all
of these. The same commit gives the same wheel. Nothing is signed or uploaded: sign SHA256SUMS with your key.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
import zipfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = "deploy/locks/image.txt"
BUILD_LOCK: Final = "deploy/locks/test.txt"
PAGE: Final = "pipeline/investigator/assets/packages/package-lock.json"
DOCKERFILE: Final = "deploy/Dockerfile"

_BUILD: Final = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
_ENTRY: Final = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]+?))? \\\n(?P<hashes>(?:    .*\n?)+)",
    re.MULTILINE,
)


class ReleaseError(Exception):
    """The release failed."""


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.generate.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="the folder to write to; must be empty or missing")
    parser.add_argument(
        "--builder", default="urn:laggard:builder:local", help="the URI of the builder, for the provenance"
    )
    options = parser.parse_args()
    try:
        written = release(ROOT, options.folder, options.builder)
    except (ReleaseError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(*written, sep="\n")
    return 0


def release(root: Path, folder: Path, builder: str) -> list[Path]:
    """Write all files of a release.

    Args:
        root: the checkout.
        folder: the folder to write to.
        builder: a URI, for the provenance.

    Raises:
        ReleaseError: the checkout has changes, the folder has files, or the build fails.

    """
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"the checkout has changes ({changed.splitlines()[0]}); commit or stash them")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ReleaseError(f"{folder} has files; choose an empty or new folder")
    commit = _git(root, "rev-parse", "HEAD")
    time = datetime.fromtimestamp(int(_git(root, "show", "--no-patch", "--format=%ct", "HEAD")), UTC)
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    wheel = _built(root, folder.resolve(), time)
    sbom = folder / f"laggard-{version}.cdx.json"
    _write(sbom, bill_of_materials(root, version, commit, time, wheel))
    statement = folder / f"laggard-{version}.provenance.json"
    _write(statement, provenance(root, commit, builder, [wheel, sbom]))
    sums = folder / "SHA256SUMS"
    files = sorted([wheel, sbom, statement])
    sums.write_text("".join(f"{sha256(path.read_bytes())}  {path.name}\n" for path in files))
    return [*files, sums]


def _built(root: Path, folder: Path, time: datetime) -> Path:
    """Build the wheel from the commit alone, without other files of the checkout."""
    archive = subprocess.run(
        ["git", "archive", "--format=zip", "HEAD"], cwd=root, capture_output=True, check=True
    ).stdout
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(time.timestamp())), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory(prefix="laggard-release-") as tree:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(tree)
        command = [sys.executable, "-W", "ignore", "-c", _BUILD, str(folder)]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"cannot build: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = folder.iterdir()
    return wheel


def bill_of_materials(root: Path, version: str, commit: str, time: datetime, wheel: Path) -> dict[str, Any]:
    """Return an SBOM of the image in CycloneDX 1.6: laggard, the locked packages, and the packages of the page."""
    components = [*_python(root), *_page(root)]
    laggard = f"pkg:pypi/laggard@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{laggard}#{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": time.isoformat(),
            "component": {
                "type": "application",
                "bom-ref": laggard,
                "name": "laggard",
                "version": version,
                "purl": laggard,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "externalReferences": [_distribution(wheel.name, [sha256(wheel.read_bytes())])],
            },
        },
        "components": components,
        "dependencies": [{"ref": laggard, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _python(root: Path) -> list[dict[str, Any]]:
    found = []
    for entry in _ENTRY.finditer((root / LOCK).read_text()):
        purl = f"pkg:pypi/{entry['name']}@{entry['version'].replace('!', '%21')}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": purl,
            "name": entry["name"],
            "version": entry["version"],
            "purl": purl,
            "externalReferences": [_distribution(purl, re.findall(r"sha256:([0-9a-f]{64})", entry["hashes"]))],
        }
        if expression := _licence(entry["name"]):
            component["licenses"] = [{"expression": expression}]
        if entry["marker"]:
            component["properties"] = [{"name": "laggard:python:marker", "value": entry["marker"]}]
        found.append(component)
    return found


def _page(root: Path) -> list[dict[str, Any]]:
    packages = json.loads((root / PAGE).read_text())["packages"]
    found = []
    for name in packages[""]["dependencies"]:  # the others are types
        package = packages[f"node_modules/{name}"]
        purl = f"pkg:npm/{name}@{package['version']}"
        component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"]}
        found.append(component | {"purl": purl, "licenses": [{"expression": package["license"]}]})
    return found


def _licence(name: str) -> str:
    """Return the SPDX expression of the package itself; empty without one."""
    try:
        return str((metadata(name).get_all("License-Expression") or [""])[0])
    except PackageNotFoundError:  # of another Python or machine
        return ""


def _distribution(url: str, hashes: list[str]) -> dict[str, Any]:
    return {"type": "distribution", "url": url, "hashes": [{"alg": "SHA-256", "content": each} for each in hashes]}


def provenance(root: Path, commit: str, builder: str, files: list[Path]) -> dict[str, Any]:
    """Return the provenance of the files: an in-toto statement with SLSA's provenance 1.0."""
    base = re.search(r"^ARG PYTHON=(\S+)$", (root / DOCKERFILE).read_text(), re.MULTILINE)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path.read_bytes())}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:laggard:release:1",
                "externalParameters": {"commit": commit},
                "internalParameters": {"python": sys.version.split()[0], "baseImage": base[1] if base else ""},
                "resolvedDependencies": [
                    {"uri": f"git:{commit}", "digest": {"gitCommit": commit}},
                    *(
                        {"uri": name, "digest": {"sha256": sha256((root / name).read_bytes())}}
                        for name in (LOCK, BUILD_LOCK)
                    ),
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def sha256(content: bytes) -> str:
    """Return the digest in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
