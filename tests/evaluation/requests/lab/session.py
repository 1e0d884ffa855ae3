"""A server, its visitors, and a trouble that comes and goes while the kernel's trace is recorded."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.producers.trace.boundaries.php import php_probes
from laggard.producers.trace.ftrace.recorder import Recorder
from tests.evaluation.requests.lab.injecting import Injector
from tests.evaluation.requests.lab.servers import AHEAD, Server, process, shop
from tests.evaluation.requests.lab.sites import blog, wordpress
from tests.evaluation.requests.lab.truth import read_answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.evaluation.requests.lab.injecting import Window
    from tests.evaluation.requests.lab.troubles import Trouble
    from tests.evaluation.requests.lab.truth import Answer

SERVERS: Final = {"blog": blog, "shop": shop, "wordpress": wordpress}
VISITORS: Final = 8
WARM_UP_S: Final = 5.0


class Seen(NamedTuple):
    """What there is beside the trace.

    Attributes:
        answers: what visitors got.
        windows: when the trouble was there.
        ports: of what stands behind the server, by name.

    """

    answers: list[Answer]
    windows: list[Window]
    ports: dict[str, int]


@contextmanager
def visited(server: Server, file: Path, seed: int, *, visitors: int = VISITORS) -> Iterator[None]:
    """Let visitors come; what they got stands in a file afterward."""
    module = "tests.evaluation.requests.lab.visitors"
    paths = [f"{path}={weight}" for path, weight in server.paths.items()]
    command = [sys.executable, "-m", module, server.port, visitors, server.think_s, server.numbers, seed, *paths]
    with process(list(map(str, command)), log=file, priority=AHEAD) as started:
        yield
        assert started.stdin is not None
        started.stdin.close()
        started.wait()


@contextmanager
def recorder(server: Server, folder: Path, *, minimal: bool = False) -> Iterator[Recorder]:
    """A recorder into a folder that knows where the server's requests begin and end."""
    probes = php_probes(server.php, server.name) if server.php else ()
    with Recorder(folder, probes=probes, minimal=minimal) as made:
        # A link, since the shop has mounts of its own: what a recorder mounts would not be seen there.
        server.marker.symlink_to(made.session.instance.path / "trace_marker")
        try:
            yield made
        finally:
            server.marker.unlink()


def run(trouble: Trouble, folder: Path, servers: Path, seconds: float, seed: int) -> Seen:
    """Let a trouble come and go for so long, and record.

    Args:
        trouble: that is to be.
        folder: for the trace, which goes into `trace`, and for what visitors got, `answers.jsonl`.
        servers: a folder for the servers' own files, on a disk.
        seconds: how long to record.
        seed: of the random numbers.

    """
    with SERVERS[trouble.server](servers, AHEAD) as server, ExitStack() as closing:
        with visited(server, servers / "warm_up.jsonl", seed):
            time.sleep(WARM_UP_S)
        # What the recorder's process starts from then on is not recorded.
        injector = Injector(trouble, trouble.prepare(server, closing), seed)
        with visited(server, folder / "answers.jsonl", seed), recorder(server, folder / "trace") as recording:
            calm_until = time.monotonic() + server.calm_s

            def wanted() -> bool:
                if time.monotonic() > calm_until and not injector.is_alive():
                    injector.start()
                return True

            try:
                recording.run(seconds, wanted=wanted)
            finally:
                windows = injector.stop()
        with (folder / "answers.jsonl").open() as answers:
            return Seen(read_answers(answers), windows, server.ports)
