"""Makes the carried pages anew, as root: `python -m tests.producers.trace.ftrace.capture FOLDER`.

A few real pages of each CPU, what tracefs says of their form, and the kernel's own text of the same events, which is
what the tests compare with. Once as they came, and once from a buffer so small that the kernel had to drop events.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from laggard.producers.trace.ftrace.session import Session

WORK = """
import os, subprocess, threading, time
marker = input()
for _ in range(4):
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    for number in range(20):
        os.path.exists("/etc/hostname")
    thread.join()
subprocess.run(["/usr/bin/true"])
with open(marker, "w") as marker:
    marker.write("laggard begin 7 shop\\tGET /cart/12?x=1")
    marker.flush()
    time.sleep(0.002)
    marker.write("laggard end 7")
    marker.flush()
    marker.write("somebody else's")
"""
OURS = ("swapper", "python", "true", "ksoftirqd", "rcu_", "kworker", "migration", "jbd2", "sleep")


def capture(folder: Path, buffer_kib: int) -> bool:
    """One recording; False where others started programs meanwhile."""
    # Before the session: what is started by the recorder is left out.
    work = subprocess.Popen(["/usr/bin/python3", "-S", "-E", "-c", WORK], stdin=subprocess.PIPE)
    session = Session()
    try:
        instance = session.instance
        instance.write("buffer_size_kb", str(buffer_kib))
        session.start()
        work.communicate(f"{instance.path / 'trace_marker'}\n".encode())
        session.stop()
        text = (instance.path / "trace").read_text()
        names = set(re.findall(r"(?:^ *|comm=)(\S[^\n=]*?)(?:-\d+ +\[| [a-z_]*pid=| prio=)", text, re.MULTILINE))
        if any(not name.startswith("/usr/bin") for name in re.findall(r"filename=(\S+)", text)):
            return False
        pages: dict[int, list[bytes]] = {}
        for portion, cpus in session.take():
            pages.setdefault(int(cpus[0]), []).append(portion.tobytes())
        described = session.described()
        described["host"], described["threads"], described["descriptors"] = "web-1", [], []
    finally:
        session.close()
    size = instance.header.page
    # The names of other programs stay private.
    for number, name in enumerate(sorted((name for name in names if not name.startswith(OURS)), key=len)[::-1]):
        plain = f"p{number}"
        text = text.replace(name, plain)
        for portions in pages.values():
            portions[:] = [one.replace(name.encode(), plain.encode().ljust(len(name), b"\0")) for one in portions]
    described |= {"version": 1, "ports": {}}
    folder.mkdir(parents=True, exist_ok=True)
    for cpu in described["cpus"]:
        raw = b"".join(pages.get(cpu, []))
        assert len(raw) % size == 0
        (folder / f"cpu{cpu}.gz").write_bytes(gzip.compress(raw, 9, mtime=0))
    (folder / "recording.json.gz").write_bytes(gzip.compress(json.dumps(described).encode(), 9, mtime=0))
    (folder / "trace.txt.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(folder, {path.name: path.stat().st_size for path in folder.iterdir()})
    return True


def main() -> None:
    """Try until it is of this program alone."""
    folder = Path(sys.argv[1])
    for name, buffer_kib in (("whole", 4096), ("lost", 16)):
        while not capture(folder / name, buffer_kib):
            time.sleep(0.3)


if __name__ == "__main__":
    main()
