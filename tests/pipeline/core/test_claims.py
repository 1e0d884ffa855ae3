"""Claims with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core import claims
from laggard.pipeline.core.claims import PARTS, Claim, Claimed, claim_path, holder_of

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from laggard.pipeline.core.claims import Claim
with Claim(sys.argv[1], Path(sys.argv[2]), "agent"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_holder_at_a_time_whose_claim_is_for_its_owner_alone(tmp_path: Path) -> None:
    bus = str(tmp_path / "new/laggard.db")
    assert holder_of(bus, tmp_path, "agent") is None
    before = time.time()
    with Claim(bus, tmp_path, "agent") as claim:
        holder = holder_of(bus, tmp_path, "agent")
        assert holder is not None
        assert (holder.pid, holder.url, holder.supervised) == (os.getpid(), "", False)
        assert before <= holder.since <= time.time()
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
        assert claim_path(bus, tmp_path, "agent").stat().st_mode & 0o777 == 0o600
        claim.write("http://127.0.0.1:1")
        assert getattr(holder_of(bus, tmp_path, "agent"), "url", None) == "http://127.0.0.1:1"
        with pytest.raises(Claimed, match=rf"`laggard agent` runs already on .*laggard\.db \(process {os.getpid()}\)"):
            Claim(bus, tmp_path, "agent")
        for other in set(PARTS) - {"agent"}:
            assert holder_of(bus, tmp_path, other) is None
            with Claim(bus, tmp_path, other, supervised=True):
                assert getattr(holder_of(bus, tmp_path, other), "supervised", None) is True
    assert holder_of(bus, tmp_path, "agent") is None
    Claim(bus, tmp_path, "agent").close()


def test_one_bus_under_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    names = [str(tmp_path / "data/x.db"), "link/x.db", "embedded:data/x.db", f"embedded:{tmp_path}/link/../data/x.db"]
    assert len({claim_path(name, tmp_path, "work") for name in names}) == 1
    assert claim_path("kafka://broker:9092", tmp_path / "state", "work") == tmp_path / "state/work.lock"


def test_several_workers_on_a_bus_on_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MAX_WORKERS", 3)
    bus = "kafka://b1"
    three = [Claim(bus, tmp_path, "work") for _ in range(3)]
    three[0].write("http://127.0.0.1:1")
    assert getattr(holder_of(bus, tmp_path, "work"), "url", None) == "http://127.0.0.1:1"
    with pytest.raises(Claimed, match="`laggard work` runs already on kafka://b1"):
        Claim(bus, tmp_path, "work")
    three[1].close()
    assert getattr(holder_of(bus, tmp_path, "work"), "url", None) == "http://127.0.0.1:1"
    Claim(bus, tmp_path, "work").close()
    with Claim(bus, tmp_path, "agent"), pytest.raises(Claimed):
        Claim(bus, tmp_path, "agent")
    for claim in three[::2]:
        claim.close()
    assert holder_of(bus, tmp_path, "work") is None


def test_a_link_in_the_place_of_a_claim_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("content")
    bus = str(tmp_path / "laggard.db")
    claim_path(bus, tmp_path, "agent").symlink_to(precious)
    with pytest.raises(OSError, match=r"laggard\.db\.agent\.lock"):
        Claim(bus, tmp_path, "agent")
    assert precious.read_text() == "content"


def test_a_killed_holder_leaves_nothing(tmp_path: Path) -> None:
    bus = str(tmp_path / "laggard.db")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, bus, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder.stdin, holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        assert getattr(holder_of(bus, tmp_path, "agent"), "pid", None) == holder.pid
        with pytest.raises(Claimed):
            Claim(bus, tmp_path, "agent")
        holder.kill()
        holder.wait()
    assert holder_of(bus, tmp_path, "agent") is None
    Claim(bus, tmp_path, "agent").close()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_a_holder_that_has_not_said_who_it_is(tmp_path: Path, text: bytes) -> None:
    bus = str(tmp_path / "laggard.db")
    with Claim(bus, tmp_path, "up"):
        claim_path(bus, tmp_path, "up").write_bytes(text)
        assert getattr(holder_of(bus, tmp_path, "up"), "pid", None) == 0
        with pytest.raises(Claimed, match=r"`laggard up` runs already on \S+; stop"):
            Claim(bus, tmp_path, "up")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Claim(str(tmp_path / "file/laggard.db"), tmp_path, "up")
