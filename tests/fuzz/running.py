"""Giving a target one input within its bounds, and many: guided by coverage where atheris is, else at random."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fuzz.targets import Target

ROOT: Final = Path(__file__).parents[2]
CRASHES: Final = Path(__file__).parent / "crashes"
LONGEST: Final = 256 * 1024
"""Bytes of an input."""
CURRENT: Final = "current"
"""The file that holds the input which is tried, should the process die of it."""


class FindingError(Exception):
    """An input that is answered by something else than the target's own error.

    Attributes:
        key: the error and where it was raised: of those alike one is kept.

    """

    def __init__(self, key: str, details: str) -> None:
        super().__init__(f"{key}\n{details}")
        self.key = key


class _TooSlow(BaseException):  # as KeyboardInterrupt: no handler of errors may take it for one
    """It takes longer than it may."""


def attempt(target: Target, data: bytes, folder: Path) -> None:
    """Give it one input. CPU time counts, since others may load the machine.

    Raises:
        FindingError: it raises, or takes more time or memory than it may.

    """
    for path in folder.iterdir():
        if path.name != CURRENT:
            path.unlink()
    before_bytes = _most_bytes()
    begin_s = time.process_time()
    try:
        with _bounded(target):
            target.run(data, folder)
    except _TooSlow as error:
        raise _finding("too slow", error) from error
    except Exception as error:
        raise _finding(type(error).__name__, error) from error
    took_s = time.process_time() - begin_s
    if took_s > target.most_s:
        raise FindingError("too slow in native code", f"{took_s:.1f} s of CPU")
    more_bytes = _most_bytes() - before_bytes
    if more_bytes > target.most_bytes:
        raise FindingError("too much memory", f"{more_bytes:,} bytes more")


def _most_bytes() -> int:
    """The most memory that this program ever held; `ru_maxrss` also knows that of the one that started it."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def _finding(what: str, error: BaseException) -> FindingError:
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        (Path(frame.filename).resolve(), frame.name) for frame in frames if "/site-packages/" not in frame.filename
    ]
    ours = [
        f"{path.relative_to(ROOT)}:{name}"
        for path, name in places
        if path.is_relative_to(ROOT) and name != _too_slow.__name__
    ]
    return FindingError(f"{what} in {ours[-1]}", "".join(traceback.format_exception(error, limit=-8)))


@contextmanager
def _bounded(target: Target) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # Address space is not memory: threads and arenas of `malloc` take some of it.
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * target.most_bytes + (512 << 20), hard))
    timed = threading.current_thread() is threading.main_thread()
    if timed:
        before = signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, target.most_s)
    try:
        yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_slow(*_: object) -> None:
    raise _TooSlow


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory, where there is room."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="laggard-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def saved(name: str, data: bytes) -> Path:
    """Keep an input that is a finding, for `test_fuzz.py` to try again."""
    path = CRASHES / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# Many inputs


def mutated(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of the seeds, changed in a few places."""
    data = bytearray(rng.choice(seeds))
    for _ in range(1 << rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        until = min(len(data), at + (1 << rng.randrange(8)))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del data[at:until]
            case 3:
                data[at:at] = data[at:until] * (1 << rng.randrange(6))
            case 4 if words:
                word = rng.choice(words)
                data[at : at + len(word) * rng.randrange(2)] = word
            case 5:
                other = rng.choice(seeds)
                begin = rng.randrange(len(other) + 1)
                data[at:until] = other[begin : begin + (1 << rng.randrange(10))]
            case _:
                digits = [index for index in range(at, until) if 0x30 <= data[index] <= 0x39]
                if digits:
                    data[rng.choice(digits)] = rng.choice(b"0123456789-.e")
    return bytes(data[:LONGEST])


class Tried:
    """Runs a target on inputs, and counts them and its findings.

    Parameters:
        name: the target's name.
        target: the target.
        folder: the folder of the findings.

    """

    def __init__(self, name: str, target: Target, folder: Path) -> None:
        self.count = 0
        self.found: dict[str, Path] = {}
        self._name = name
        self._target = target
        self._folder = folder

    def __call__(self, data: bytes) -> None:
        """Try one, and keep it where it is a finding of another kind than those before."""
        self.count += 1
        (self._folder / CURRENT).write_bytes(data)
        try:
            attempt(self._target, data, self._folder)
        except FindingError as error:
            if error.key not in self.found:
                self.found[error.key] = saved(self._name, data)
                print(f"{self._name}: {error}\nsaved as {self.found[error.key]}", flush=True)


def main() -> None:
    """The process that tries: NAME FOLDER SECONDS SEED."""
    name, folder, seconds, seed = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    try:
        import atheris  # noqa: PLC0415 - where there is none, inputs are random
    except ImportError:
        atheris = None
    if atheris is None:
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415

        tried = Tried(name, TARGETS[name], folder)
        at_random(tried, TARGETS[name], seconds, seed)
        _report(tried)
        return
    # The rooms by their folders, as mypy has them: what is installed in place cannot be instrumented.
    sys.path.insert(0, str(Path(sys.prefix) / "typing"))
    with atheris.instrument_imports(include=["laggard", "prometheus_client", "h11"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415
    target = TARGETS[name]
    tried = Tried(name, target, folder)
    corpus = ROOT / ".venv/fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for each in target.seeds():
        (corpus / hashlib.sha256(each).hexdigest()[:16]).write_bytes(each)
    words = folder.parent / "words"
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words))
    end_s = time.monotonic() + seconds

    def one(data: bytes) -> None:
        tried(data)
        if time.monotonic() > end_s:  # libFuzzer would end without a word
            _report(tried)
            os._exit(0)

    (CRASHES / name).mkdir(parents=True, exist_ok=True)
    options = [
        f"-artifact_prefix={CRASHES / name}/",  # of what hangs in native code, or ends the process
        "-report_slow_units=600",  # not by the clock on the wall: others load the machine
        f"-max_len={LONGEST}",
        f"-seed={seed}",
        f"-dict={words}",
        "-timeout=600",
        "-rss_limit_mb=0",
        "-verbosity=0",
    ]
    atheris.Setup([name, *options, str(corpus)], one)
    atheris.Fuzz()


def at_random(tried: Tried, target: Target, seconds: float, seed: int) -> None:
    """The seeds, then mutations of them."""
    rng, seeds = random.Random(seed), list(target.seeds())
    end_s = time.monotonic() + seconds
    for number in itertools.count():
        tried(seeds[number] if number < len(seeds) else mutated(rng, seeds, target.words))
        if time.monotonic() > end_s:
            return


def _report(tried: Tried) -> None:
    print(f"executions: {tried.count:,}; findings: {len(tried.found)}", flush=True)


if __name__ == "__main__":
    main()
