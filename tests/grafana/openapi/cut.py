"""Cut what laggard calls out of Grafana's OpenAPI documents: `python tests/grafana/openapi/cut.py` writes them anew.

Grafana publishes the documents as source of its server, and as a Go module: grafana-openapi-client-go, which go-swagger
generates from the document of the Grafana that the module's own scripts/pull-schema.sh or Makefile names. Here they
are read back out of that module (Apache-2.0, as laggard): per operation its method, path, parameters and what each
status answers with, and the models that these mention. Needs `go`.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

MODULE = "github.com/grafana/grafana-openapi-client-go"

VERSIONS = {
    "10.2": ("v0.0.0-20231213163343-bd475d63fb79", "tag v10.2.0"),
    "11.3": ("v0.0.0-20241113095943-9cb2bbfeb8a3", "commit e86283e8b173 of November 2024, between 11.3 and 11.4"),
    "12.1": ("v0.0.0-20250828163705-969607f81baa", "tag v12.1.0"),
    "13.0": ("v0.0.0-20260330113218-ee77c4f6f90e", "commit e36ea787712d, as taken in March 2026"),
}
"""Grafana's version: the module's, and which source of Grafana that one says it was generated from."""

OPERATIONS = (
    "getHealth",
    "getFolderByUID",
    "createFolder",
    "deleteFolder",
    "getFolderDescendantCounts",
    "getDataSources",
    "queryMetricsWithExpressions",
    "getDashboardByUID",
    "postDashboard",
    "deleteDashboardByUID",
    "getDashboardVersionsByUID",
    "search",
    "getAlertRules",
    "getAlertRule",
    "postAlertRule",
    "putAlertRule",
    "deleteAlertRule",
    "getAlertRuleGroup",
    "putAlertRuleGroup",
    "getContactpoints",
    "getAnnotations",
    "postAnnotation",
    "patchAnnotation",
)

HERE = Path(__file__).parent

_PLAIN = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "float64": {"type": "number"},
    "float32": {"type": "number"},
    "interface{}": {},
    "any": {},
    "io.ReadCloser": {},
}
_FORMATS = {"DateTime": "date-time", "Duration": "duration", "UUID": "uuid"}
_BOUNDS = {
    "Max Length": "maxLength",
    "Min Length": "minLength",
    "Pattern": "pattern",
    "Maximum": "maximum",
    "Minimum": "minimum",
}


class Source:
    """One version of the module, unpacked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models: dict[str, str] = {}
        for path in sorted((root / "models").glob("*.go")):
            text = path.read_text(encoding="utf-8")
            for found in re.finditer(r"^type (\w+) (.*)$", text, re.MULTILINE):
                self.models[found[1]] = text[found.start() :]
        self.wanted: set[str] = set()

    def document(self) -> dict[str, Any]:
        """The part of the OpenAPI document."""
        paths: dict[str, Any] = {}
        for client in sorted((self.root / "client").glob("*/*_client.go")):
            text = client.read_text(encoding="utf-8")
            for found in re.finditer(
                r'ID: +"(?:Route|route)?(\w+)",\n\t\tMethod: +"(\w+)",\n\t\tPathPattern: +"([^"]+)"', text
            ):
                name = found[1][0].lower() + found[1][1:]
                if name in OPERATIONS:
                    paths.setdefault(found[3], {})[found[2].lower()] = self.operation(client.parent, found[1], name)
        definitions: dict[str, Any] = {}
        while missing := sorted(self.wanted - definitions.keys()):
            for model in missing:
                definitions[model] = self.model(model)
        found_names = {each["operationId"] for path in paths.values() for each in path.values()}
        if missing := sorted(set(OPERATIONS) - found_names):
            print(f"{self.root.name}: has no {', '.join(missing)}")
        return {"swagger": "2.0", "basePath": "/api", "paths": paths, "definitions": definitions}

    def operation(self, folder: Path, go_name: str, name: str) -> dict[str, Any]:
        """One operation: its parameters, and what each status answers with."""
        stem = next(
            path.name.removesuffix("_responses.go")
            for path in sorted(folder.glob("*_responses.go"))
            if re.search(rf"^type (Route)?{_upper(go_name)}Reader ", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
        parameters = self.parameters((folder / f"{stem}_parameters.go").read_text(encoding="utf-8"))
        answers = (folder / f"{stem}_responses.go").read_text(encoding="utf-8")
        payloads = dict(re.findall(r"^type (\w+) struct \{\n(?:\tPayload (\S+)\n)?\}", answers, re.MULTILINE))
        codes = dict(re.findall(r"^func \(o \*(\w+)\) Code\(\) int \{\n\treturn (\d+)", answers, re.MULTILINE))
        responses = {
            code: {"schema": self.schema(payloads[answer])} if payloads.get(answer) else {}
            for answer, code in sorted(codes.items(), key=lambda each: each[1])
        }
        return {"operationId": name, "parameters": parameters, "responses": responses}

    def parameters(self, text: str) -> list[dict[str, Any]]:
        """The parameters, as the structure and what writes it to a request have them."""
        body = re.search(r"^type \w+Params struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
        assert body is not None
        types = dict(re.findall(r"^\t(\w+) ([*\[\]\w.{}]+)$", body[1], re.MULTILINE))
        writing = text[text.index("WriteToRequest(") :]
        found = []
        for each in re.finditer(r"// (query|path|header)( array)? param (\S+)", text):
            field = next(name for name in types if name.lower() == re.sub(r"\W|_", "", each[3]).lower())
            found.append(
                {
                    "name": each[3],
                    "in": each[1],
                    "required": each[1] == "path" or types[field][0] not in "*[",
                    **({"collectionFormat": "multi"} if types[field].startswith("[]") else {}),
                    **self.schema(types[field]),
                }
            )
        if "SetBodyParam(" in writing:
            found.append({"name": "body", "in": "body", "schema": self.schema(types["Body"])})
        return found

    def model(self, name: str) -> dict[str, Any]:
        """A model's schema."""
        text = self.models[name]
        first = text.partition("\n")[0]
        if not first.endswith(" struct {"):
            values = re.findall(rf"^\t\w+ {name} = (.*)$", text, re.MULTILINE)
            enum = {"enum": [json.loads(value) for value in values]} if values else {}
            return {**self.schema(first.split(" ", 2)[2]), **enum}
        properties: dict[str, Any] = {}
        required: list[str] = []
        parts: list[dict[str, Any]] = []
        comments: dict[str, str] = {}
        for line in map(str.strip, text[: text.index("\n}")].splitlines()[1:]):
            if comment := re.match(r"// ([A-Z][\w ]+): (.*)", line):
                comments[comment[1]] = comment[2]
            elif field := re.match(r'(\w+) (\S+(?: struct)?) `json:"([^",]+)', line):
                schema = self.schema(field[2])
                properties[field[3]] = schema | self.bounds(comments)
                if comments.get("Required") == "true":
                    required.append(field[3])
                comments = {}
            elif re.fullmatch(r"\w+", line):
                parts.append(self.schema(line))
        schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
        return {"allOf": [*parts, schema]} if parts else schema

    @staticmethod
    def bounds(comments: dict[str, str]) -> dict[str, Any]:
        """What the comments above a field say of its value."""
        found: dict[str, Any] = {
            key: comments[said] if key == "pattern" else int(comments[said])
            for said, key in _BOUNDS.items()
            if said in comments
        }
        if "Enum" in comments:
            quoted = re.findall(r'"([^"]*)"', comments["Enum"])
            found["enum"] = quoted or comments["Enum"].strip("[]").split(" ")
        if comments.get("Read Only") == "true":
            found["readOnly"] = True
        return found

    def schema(self, go_type: str) -> dict[str, Any]:
        """The schema of a Go type."""
        go_type = go_type.removeprefix("*").removeprefix("models.")
        if go_type in _PLAIN:
            return dict(_PLAIN[go_type])
        if re.fullmatch(r"u?int\d*", go_type):
            return {"type": "integer"}
        if go_type.startswith("[]"):
            return {"type": "array", "items": self.schema(go_type[2:])}
        if go_type.startswith("map[string]"):
            return {"type": "object", "additionalProperties": self.schema(go_type[len("map[string]") :])}
        if go_type.startswith("strfmt."):
            return {"type": "string", "format": _FORMATS[go_type[len("strfmt.") :]]}
        if go_type not in self.models:
            raise ValueError(f"{self.root.name}: expected a model called {go_type}")
        self.wanted.add(go_type)
        return {"$ref": f"#/definitions/{go_type}"}


def _upper(name: str) -> str:
    return name[0].upper() + name[1:]


def main() -> None:
    """Write every version's part."""
    for version, (module_version, source) in VERSIONS.items():
        asked = ["go", "mod", "download", "-json", f"{MODULE}@{module_version}"]
        answer = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True, cwd="/").stdout)
        document = Source(Path(answer["Dir"])).document()
        document["info"] = {
            "title": f"What laggard calls of Grafana's HTTP API {version}",
            "version": version,
            "description": f"Cut by cut.py from {MODULE} {module_version} (Apache-2.0), generated from Grafana's "
            f"public/api-merged.json at {source}.",
        }
        path = HERE / f"grafana-{version}.json"
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{path.name}: {len(document['paths'])} paths, {len(document['definitions'])} models")


if __name__ == "__main__":
    main()
