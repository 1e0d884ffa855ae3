"""The lab's hosts: control groups with bounds, and networks of their own behind one switch; and a slow disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from tests.evaluation.lab.groups import UNIFIED, Group, own_paths
from tests.evaluation.lab.keeper import Keeper
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

MIB: Final = 1 << 20
ROOT: Final = Path(__file__).parents[3]
NETWORK: Final = "10.77.0."
WEIGHT: Final = 262_144
"""The weight of the lab on the machine: the largest there is; 1024 is the default. Its quotas are its bounds."""


class Host:
    """A part of the machine with the limits of a machine of its own.

    Attributes:
        name: its name.
        address: in the lab's network.
        group: with its bounds; what runs on it is in inner groups.
        groups: these, by name.
        cores: its CPU quota; 0 while it has none.
        memory_bytes: its limit; 0 without one.

    """

    def __init__(self, lab: Lab, name: str, address: str, memory_bytes: int) -> None:
        self.name = name
        self.address = address
        self.group = Group.below(lab.group.paths, name)
        self.groups: dict[str, Group] = {}
        self.cores = 0.0
        self.memory_bytes = memory_bytes
        self.namespace = f"{lab.name}-{name}"
        self._lab = lab
        if memory_bytes:
            self.group.limit_memory(memory_bytes)
        lab.connect(self.namespace, name, address)

    def limit_cpu(self, cores: float) -> None:
        """Give it a number of cores."""
        self.group.limit_cpu(cores)
        self.cores = cores

    def add(self, name: str, weight: int = 1024) -> Group:
        """Make an inner group with a weight for the CPU."""
        group = self.groups[name] = self.group.inner(name)
        group.write("cpu", "cpu.shares", weight)
        return group

    def command(self, group: str, command: Sequence[str]) -> list[str]:
        """The command that runs another in an inner group of this host, and in its network."""
        return self.groups[group].command(["nsenter", f"--net=/run/netns/{self.namespace}", "--", *command])

    def start(
        self,
        group: str,
        command: Sequence[str],
        *,
        told: bool = False,
        environment: Mapping[str, str] | None = None,
        says: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command.

        Args:
            group: in which it is.
            command: with its arguments.
            told: whether it is going to be told something on its standard input.
            environment: of it.
            says: the file for its standard output; by default, as for its errors, one that is called like the group.

        """
        log = self._lab.folder / f"{self.name}-{group}.log"
        with log.open("a") as errors, (says or log).open("a") as output:
            process = subprocess.Popen(
                self.command(group, command),
                stdin=subprocess.PIPE if told else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=environment,
            )
        self._lab.started.append(process)
        return process

    def run(self, group: str, command: Sequence[str], standard_input: str = "") -> str:
        """Run a command to its end, and return what it said. Raises OSError where it fails."""
        return run(self.command(group, command), standard_input)


class Lab:
    """The shared resources of the hosts. They are released when it is closed, and also when it is killed.

    Attributes:
        name: unique on the machine.
        keeper: registers everything to release.
        folder: for files, on a memory filesystem.
        group: all others are in it.
        started: processes on the hosts.

    """

    def __init__(self) -> None:
        if os.geteuid():
            raise PermissionError("the lab makes control groups, networks and loop devices: expected to be run by root")
        parents = own_paths()
        self.started: list[subprocess.Popen[str]] = []
        self.name = f"laggard-lab-{os.getpid()}"
        self.keeper = Keeper()
        self._addresses = 0
        try:
            self.folder = Path(mkdtemp(prefix=f"{self.name}-", dir="/dev/shm"))
            self.keeper.will_take("folder", self.folder)
            self.folder.chmod(0o755)
            self._switch = f"{self.name}-switch"
            self.keeper.will_take("namespace", self._switch)
            run([path_of("ip"), "netns", "add", self._switch])
            self._in_switch("link", "add", "switch", "type", "bridge")
            self._in_switch("link", "set", "switch", "up")
            for hierarchy in sorted(
                parents, key=lambda each: each == UNIFIED
            ):  # the last is the first to be given back
                self.keeper.will_take("group", parents[hierarchy] / self.name)
            self.group = Group.below(parents, self.name)
            self.group.write("cpu", "cpu.shares", WEIGHT)
        except BaseException:
            self.keeper.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.keeper.close()
        for process in self.started:  # all have been killed
            process.__exit__(None, None, None)

    def host(self, name: str, memory_bytes: int = 0) -> Host:
        """Make a host."""
        self._addresses += 1
        return Host(self, name, f"{NETWORK}{self._addresses}", memory_bytes)

    def connect(self, namespace: str, name: str, address: str) -> None:
        """Give a new network namespace an interface, and plug it into the switch."""
        self.keeper.will_take("namespace", namespace)
        run([path_of("ip"), "netns", "add", namespace])
        self._in_switch("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self._in_switch("link", "set", f"to-{name}", "master", "switch", "up")
        for command in (["address", "add", f"{address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            run([path_of("ip"), "-netns", namespace, *command])
        run([path_of("ip"), "-netns", namespace, "link", "set", "lo", "up"])

    def _in_switch(self, *command: str) -> None:
        run([path_of("ip"), "-netns", self._switch, *command])


class Disk:
    """A filesystem on a disk that can be slowed down.

    The disk is a loop device on another one. The limit of a group applies to the lower one, so the group waits in the
    upper one. The counters of the upper one are those of any slow disk. The lower one is in memory, so that no other
    user of the machine's disks has a part in it.

    Attributes:
        device: the upper one, as in `/proc/diskstats`.
        folder: where it is mounted.

    """

    def __init__(self, lab: Lab, size_bytes: int) -> None:
        self._keeper = lab.keeper
        image = lab.folder / "disk"
        with image.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        self._lower = self._loop(str(image))
        upper = self._loop("--direct-io=on", self._lower)
        self.device = Path(upper).name
        run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", upper])
        self.folder = lab.folder / "mounted"
        self.folder.mkdir()
        self._keeper.will_take("mount", self.folder)
        run(["mount", "-o", "noatime", upper, str(self.folder)])

    def limit(self, group: Group, operations_per_s: int, bytes_per_s: int) -> None:
        """Bound what a group may do on it."""
        number = Path("/sys/block", Path(self._lower).name, "dev").read_text().strip()
        group.limit_disk(number, operations_per_s, bytes_per_s)

    def _loop(self, *arguments: str) -> str:
        """Attach the last argument to a free loop device, and return that."""
        self._keeper.will_take("loop", arguments[-1])
        return run(["losetup", "--find", "--show", *arguments]).strip()


def run(command: Sequence[str], standard_input: str = "") -> str:
    """Run a command to its end, and return what it said. Raises OSError where it fails."""
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()[-2000:] or f'exit code {done.returncode}'}")
    return done.stdout
