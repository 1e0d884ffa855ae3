"""The operator that `operators.md` writes: each file goes where the page says, in a copy of the checkout, and runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutation.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy/docs/development/operators.md").read_text()
WHOLE = re.compile(r"`([\w/]*peaks[\w/]*\.py)`[^`]*?:\n\n```python\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
FRAMES = 200


def block(start: str) -> str:
    """The one block of code that begins so."""
    (found,) = [each for each in BLOCK.findall(PAGE) if each.startswith(start)]
    return str(found)


def edit(path: Path, before: str, added: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, f"{path}: {before}"
    path.write_text(text.replace(before, added + before))


def recording(path: Path) -> None:
    """One process with its usual CPU time; then far more."""

    def lines() -> Iterable[dict[str, object]]:
        for number in range(FRAMES):
            value = 0.9 if number == FRAMES - 2 else 0.01
            ts, rows = 1.7e9 + 5.0 * number, {"cron[2]": {"cpu_user_ratio": value}}
            yield {"ts": ts, "host": "web-1", "scope": "process", "names": {"cron[2]": "cron"}, "rows": rows}

    path.write_text("".join(json.dumps(each) + "\n" for each in lines()))


IMPORTED = "from laggard.pipeline.methods.hosts.settings import PeaksSettings"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A checkout with the operator."""
    tree = Tree.copied(ROOT, tmp_path_factory.mktemp("operator") / "checkout")
    whole = dict(WHOLE.findall(PAGE))
    assert whole.keys() == {
        "operators/peaks/detector.py",
        "operators/peaks/__init__.py",
        "pipeline/methods/hosts/peaks.py",
        "tests/operators/test_peaks.py",
    }
    for name, text in whole.items():
        path = tree.root / name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    settings = tree.root / "pipeline/methods/hosts/settings.py"
    settings.write_text(settings.read_text() + "\n\n" + block("class PeaksSettings"))
    manifest = tree.root / "pipeline/manifest.py"
    edit(manifest, "    SaturationSettings,\n    RiverSettings,\n", "    PeaksSettings,\n")
    edit(manifest, "from laggard.pipeline.methods.pools.settings", f"{IMPORTED}\n")
    edit(tree.root / "pipeline/operator_table.py", '    "regression": Operator', block('    "peaks"'))
    contract = tree.root / "tests/operators/test_contract.py"
    maker, features, damaged = re.split(r"^# .*\n", block("# MAKERS"), flags=re.MULTILINE)[1:]
    edit(contract, '    "gaussian": lambda', maker.rstrip() + "\n")
    usual = '    return MEASURED if name.startswith("cpu") else 12\n'
    edit(contract, usual, features.rstrip() + "\n")
    edit(contract, "    def damaged", damaged.rstrip() + "\n\n")
    edit(contract, "MAKERS: dict", f"{block('from laggard.operators.peaks').splitlines()[0]}\n\n")
    return tree


def run(tree: Tree, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LAGGARD_", "PYTEST_"))}
    environment |= {"PYTHONPATH": str(tree.root), "HOME": str(tree.root)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree.root, env=environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_its_tests_and_those_of_the_contract_pass(written: Tree) -> None:
    tests = ("tests/operators/test_peaks.py", "tests/operators/test_contract.py")
    output = run(written, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests, "-k", "peaks")
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None
    assert int(passed[1]) > 10, output


def test_it_is_replayed(written: Tree, tmp_path: Path) -> None:
    recording(tmp_path / "frames.jsonl")
    options = ("--operators", "peaks", "--set", "peaks.false_alarms=2/week", "--json")
    output = run(written, "-m", "laggard.pipeline.cli", "replay", str(tmp_path / "frames.jsonl"), *options)
    (anomaly,) = [each for each in map(json.loads, output.splitlines()) if each["kind"] == "anomaly"]
    assert anomaly["operator"] == "peaks"
    assert anomaly["parameters"]["false_alarms_per_day"] == pytest.approx(2 / 7)
    assert anomaly["ts"] == 1.7e9 + 5.0 * (FRAMES - 2)
