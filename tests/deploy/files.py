"""Reading the files of `deploy/`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import yaml

from laggard.pipeline.manifest import SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ROOMS = (".github", "deploy", "operators", "pipeline", "producers", "tests")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.md"))])
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def schema(name: str) -> Any:
    """One of the schemas of others, see `tests/schemas/README.md`."""
    return json.loads(gzip.decompress((ROOT / f"tests/schemas/{name}.json.gz").read_bytes()))


def documents(text: str) -> list[Any]:
    """The documents of a YAML text. Unlike PyYAML alone, a key that stands twice is an error."""
    return list(yaml.load_all(text, Loader=_Strict))  # a loader of plain data


class _Strict(yaml.SafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        assert len(keys) == len(set(keys)), f"line {node.start_mark.line + 1}: a key twice among {keys}"
        return super().construct_mapping(node, deep)


def check_settings(environment: dict[str, str]) -> None:
    """Whether each LAGGARD_ variable is that of a setting, and its value one that the setting takes."""
    for variable, value in environment.items():
        if variable.startswith("LAGGARD_"):
            assert variable in BY_VARIABLE, f"there is no setting for {variable}"
            if not {"$", "%"} & set(value):
                BY_VARIABLE[variable].read(value)


def assignments(text: str) -> dict[str, str]:
    """The variables of an environment file."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}
