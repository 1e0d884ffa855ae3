"""All outputs of laggard for one fixed input, to compare two revisions byte for byte.

    python -m tests.corpus write FOLDER        # write the outputs of this checkout as files
    python -m tests.corpus compare REVISION    # compare them with those of another revision

The input is the world of the browser's tests: three hosts, an application, two pools, a service with traced requests,
marks, a diagnosis, and an unreadable record. The worker restarts in the middle. The files are the records of each
topic, the snapshots, the answers of the API, the page of metrics, and the output of the commands.

Floating point depends on the processor, so nothing is pinned in the repository: both sides run on one machine.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import filecmp
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock
from urllib.parse import urlencode

from prometheus_client import CollectorRegistry, generate_latest

from laggard.pipeline.cli import run
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.metrics.exporter import Exporter
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import stages
from tests.browser.world import BEGINS, ENDS, HOST, INTERVAL_S, SETTINGS, make_world, served_world
from tests.grafana.scene import APPLICATION, SERVICE, TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import httpx

    Asked = tuple[str, Mapping[str, object]]
    Answer = Callable[..., Any]

ROOT: Final = Path(__file__).parents[2]

RESTARTED_AT: Final = BEGINS + 300.0


def write(folder: Path, restarted_at: float = RESTARTED_AT) -> None:
    """Write all outputs below a new folder."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="laggard-corpus-") as place:
        path = Path(place) / "bus.db"
        exporter = Exporter(Telemetry(), 10, {"gaussian": 1.0}, clock=lambda: 0.0)  # not of the worker, which is timed
        shown: list[str] = []
        make_world(
            path,
            INTERVAL_S,
            observers=(exporter,),
            restarted_at=restarted_at,
            at_end=lambda: shown.append(_metrics(exporter)),
        )
        with EmbeddedBus(path) as bus:
            _write(folder / "topics", _topics(bus))
            _write(folder / "snapshots", _snapshots(bus))
        _write(folder, [("metrics.txt", shown[0])])
        with served_world(path) as page:
            _write(folder / "api", _answers(page.client))
        _write(folder / "commands", _commands(path, Path(place)))


def _write(folder: Path, texts: Iterable[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts:
        (folder / name).write_text(text, encoding="utf-8")


def _topics(bus: EmbeddedBus) -> Iterator[tuple[str, str]]:
    for spec in TOPICS.specs():
        for partition in bus.partitions(spec.name):
            records = bus.read(partition, bus.bounds(partition)[0])
            lines = [json.dumps([each.offset, each.key, each.ts, _text(each.value)]) for each in records]
            yield f"{partition.topic}-{partition.number}.jsonl", "".join(f"{line}\n" for line in lines)


def _text(value: bytes | None) -> str | None:
    """Return the value as text, in base64 if it is not UTF-8."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64 {base64.b64encode(value).decode()}"


def _snapshots(bus: EmbeddedBus) -> Iterator[tuple[str, str]]:
    settings = read_settings(None, environ={}, flags=[Given(*each, "the corpus") for each in SETTINGS.items()])
    for stage in stages(settings):
        lines = [
            f"{partition.topic}-{partition.number} {each.key} {each.offset} {each.ts} {len(each.value)} "
            f"{hashlib.sha256(each.value).hexdigest()}\n"
            for spec in TOPICS.specs()
            for partition in bus.partitions(spec.name)
            for each in bus.snapshots(stage.snapshots, partition)
        ]
        yield f"{stage.snapshots}.txt", "".join(lines)


def _metrics(exporter: Exporter) -> str:
    registry = CollectorRegistry()
    registry.register(exporter)
    return generate_latest(registry).decode()


def _answers(client: httpx.Client) -> Iterator[tuple[str, str]]:
    for number, (path, asked) in enumerate(_questions(client)):
        answer = _whole(client, path, asked)
        text = json.dumps(answer.json(), indent=1) if "json" in answer.headers["content-type"] else answer.text
        name = f"{number:03}{path.replace('/', '-')}.txt"
        yield name, f"GET {path}?{urlencode(asked)}\n{answer.status_code}\n{text}\n"


def _whole(client: httpx.Client, path: str, asked: Mapping[str, Any]) -> httpx.Response:
    """Ask until the answer is complete: the API answers long questions in parts."""
    while True:
        answer = client.get(f"/api/v1{path}", params=asked)
        if not re.search(r'"(complete":false|pending":true)', answer.text):
            return answer
        time.sleep(0.1)


def _questions(client: httpx.Client) -> Iterator[Asked]:
    """Yield at least one question for each endpoint of the API."""

    def answer(path: str, **asked: Any) -> Any:
        return client.get(f"/api/v1{path}", params=asked).json()

    for path in (
        "/openapi.json",
        "/cluster",
        "/marks",
        "/notices",
        "/feedback",
        "/applications",
        "/pools",
        "/requests",
    ):
        yield path, {}
    yield from _of_hosts(answer)
    yield from _of_incidents(answer)
    yield from _of_applications(answer)
    yield from _of_pools(answer)
    yield from _of_requests(answer)
    yield from (("/pipeline/topics", {}), ("/pipeline/letters", {}))
    for letter in answer("/pipeline/letters")["letters"]:
        yield "/pipeline/letter", {"partition": letter["partition"], "offset": letter["offset"]}


def _of_hosts(answer: Answer) -> Iterator[Asked]:
    for host in (*answer("/cluster")["hosts"], "nobody"):
        for at in (BEGINS + 60.0, BEGINS + 560.0, ENDS):
            yield "/moment", {"host": host, "at": at, "rows": 20, "features": 5}
        yield "/compare", {"host": host, "at": BEGINS + 560.0, "with": BEGINS + 500.0}
        yield "/timeline", {"host": host, "from": BEGINS, "to": ENDS, "points": 50}
        yield "/marks", {"host": host}
    for row in answer("/moment", host=HOST, at=ENDS)["rows"][:3]:
        yield "/row", {"row": row["row"], "host": HOST, "at": ENDS}
        feature = row["features"][0]["feature"]
        yield "/series", {"row": row["row"], "feature": feature, "host": HOST, "from": BEGINS, "to": ENDS}


def _of_incidents(answer: Answer) -> Iterator[Asked]:
    yield "/incidents", {}
    for incident in answer("/incidents")["incidents"]:
        for part in ("", "/diagnoses", "/beside", "/similar", "/markdown"):
            yield f"/incident{part}", {"id": incident["id"]}
        for diagnosis in answer("/incident/diagnoses", id=incident["id"])["diagnoses"]:
            yield "/diagnosis", {"id": diagnosis["id"]}


def _of_pools(answer: Answer) -> Iterator[Asked]:
    for pool in answer("/pools")["pools"]:
        for at in (BEGINS + 250.0, ENDS):
            yield "/pools/pool", {"pool": pool["pool"], "at": at}
            yield "/pools/series", {"pool": pool["pool"], "at": at, "from": BEGINS, "to": ENDS}


def _of_requests(answer: Answer) -> Iterator[Asked]:
    of_service = {"service": SERVICE}
    for path in ("/requests/service", "/requests/list", "/requests/plane"):
        yield path, of_service
    listed = answer("/requests/list", **of_service)["requests"]
    for cluster in sorted({each["cluster"] for each in listed}):
        yield "/requests/cluster", {**of_service, "cluster": cluster}
    for request in listed[:5]:
        yield "/requests/path", {**of_service, "request": request["request"], "at": request["ts"]}


def _of_applications(answer: Answer) -> Iterator[Asked]:
    application = {"application": APPLICATION}
    for path in ("configuration", "tracking", "models", "metrics", "map"):
        yield f"/applications/{path}", application
    (known,) = answer("/applications")["applications"]
    for metric in sorted({term for model in known["models"] for term in model["terms"]}):
        yield "/applications/series", {**application, "metric": metric, "from": BEGINS, "to": ENDS}
        yield "/applications/what-if", {**application, "metric": metric, "value": 0.9}


def _commands(bus: Path, state: Path) -> Iterator[tuple[str, str]]:
    at, ever = f"{BEGINS + 560.0:.0f}", ("--since", "100000d")
    words = [
        ("why", "--at", moment, "--host", host, *how)
        for moment in (at, f"{ENDS:.0f}")
        for host in (HOST, "db-1", "cache-1", "nobody")
        for how in ((), ("--json",))
    ]
    words += [("why", "--marks", "--host", HOST)]
    words += [("incidents", *ever, *how) for how in ((), ("--json",), ("--notices",), ("--open",))]
    words += [("pools", "--at", at, *how) for how in ((), ("--json",))]
    words += [("models",), ("models", "--json"), ("models", "show", APPLICATION)]
    words += [("requests",), ("requests", "--json"), ("requests", SERVICE)]
    words += [("feedback",), ("topics", "list"), ("topics", "describe"), ("topics", "check")]
    words += [("rules", "--for", kind) for kind in ("prometheus", "operator", "grafana")]
    environ = {"LAGGARD_STATE": str(state / "state"), "LAGGARD_HOST": HOST, "HOME": str(state), "TZ": "UTC"}
    with mock.patch.dict(os.environ, environ), contextlib.chdir(state):
        for number, asked in enumerate(words):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run([*asked, "--bus", str(bus)])
            said = f"$ laggard {' '.join(asked)}\n{out.getvalue()}\n--- {code}\n{err.getvalue()}"
            yield f"{number:02}-{asked[0]}.txt", said.replace(str(state), "")


def compare(revision: str) -> list[str]:
    """Print the differences from another revision, and return the names of the files that differ."""
    with tempfile.TemporaryDirectory(prefix="laggard-corpus-") as place:
        before, after = Path(place) / "before", Path(place) / "after"
        checkout = Path(place) / "checkout"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(checkout), revision], cwd=ROOT, check=True)
        try:
            for root, folder in ((checkout, before), (ROOT, after)):
                command = [sys.executable, "-m", "tests.corpus", "write", str(folder)]
                subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": _path(root, Path(place))}, check=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(checkout)], cwd=ROOT, check=True)
        names = sorted(
            {str(each.relative_to(top)) for top in (before, after) for each in top.rglob("*") if each.is_file()}
        )
        _, differ, missing = filecmp.cmpfiles(before, after, names, shallow=False)
        if shown := [*differ, *missing]:
            subprocess.run(["diff", "-r", "-U1", str(before), str(after)], check=False)
        return shown


def _path(checkout: Path, place: Path) -> str:
    """Return a PYTHONPATH on which `laggard` is that checkout."""
    rooms = place / f"rooms-of-{checkout.name}" / "laggard"
    rooms.mkdir(parents=True)
    for room in ("deploy", "operators", "pipeline", "producers"):
        (rooms / room).symlink_to(checkout / room)
    return f"{rooms.parent}:{checkout}"


def main() -> None:
    """Run the command line; exit with 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(required=True, dest="way")
    ways.add_parser("write").add_argument("folder", type=Path)
    ways.add_parser("compare").add_argument("revision")
    asked = parser.parse_args()
    if asked.way == "write":
        write(asked.folder)
        return
    differ = compare(asked.revision)
    print("".join(f"{name} differs\n" for name in differ) or "the same, byte for byte")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
