"""Threads and descriptors that were there before."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from laggard.producers.trace.events import Kind, Texts
from laggard.producers.trace.ftrace import known
from laggard.producers.trace.ftrace.known import (
    Descriptor,
    Known,
    Thread,
    parse_internet_sockets,
    parse_unix_peers,
    parse_unix_sockets,
    plain_target,
    read_known,
    socket_text,
)

if TYPE_CHECKING:
    from pathlib import Path

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   110        0 100 1 0 100 0 0 10 0
   1: 0100007F:0CEA 0100007F:D4B2 01 00000000:00000000 00:00000000 00000000   110        0 101 1 0 20 4 30 10 -1
   2: 0100007F:D4B2 0100007F:0CEA 01 00000000:00000000 00:00000000 00000000    33        0 102 1 0 20 4 30 10 -1
   3: 0100007F:D4B3 0100007F:0CEA 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 200 1
   1: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000200007F:AABB 01 0:0 00:0 0 0 0 201 1
   2: 00000000000000000000000001000000:AABC 00000000000000000000000001000000:1F90 01 0:0 00:0 0 0 0 202 1
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 300 /run/php/php-fpm.sock
0000000000000000: 00000003 00000000 00000000 0001 03 301
0000000000000000: 00000003 00000000 00000000 0001 03 302 @/tmp/a b
"""


def test_sockets_lead_where_clients_want() -> None:
    assert parse_internet_sockets(TCP) == {100: "127.0.0.1:3306", 101: "127.0.0.1:3306", 102: "127.0.0.1:3306"}
    assert parse_internet_sockets(TCP6) == {200: "[::]:80", 201: "127.0.0.1:80", 202: "[::1]:8080"}
    assert parse_unix_sockets(UNIX) == {300: "unix:/run/php/php-fpm.sock", 302: "unix:@/tmp/a b"}


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("/var/log/x.log", "/var/log/x.log"),
        ("/tmp/x (deleted)", "/tmp/x"),
        ("pipe:[123]", "pipe"),
        ("anon_inode:[eventfd]", "eventfd"),
        ("anon_inode:inotify", "inotify"),
        ("net:[4026531840]", "net"),
    ],
)
def test_other_descriptors(link: str, text: str) -> None:
    assert plain_target(link) == text


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (struct.pack("=H2s4s8x", socket.AF_INET, b"\x0c\xea", bytes([10, 0, 0, 7])), "10.0.0.7:3306"),
        (struct.pack("=H2sI16sI", socket.AF_INET6, b"\0\x50", 0, bytes(15) + b"\1", 0), "[::1]:80"),
        (struct.pack("=H2sI16sI", socket.AF_INET6, b"\0\x50", 0, bytes(10) + b"\xff\xff\x7f\0\0\1", 0), "127.0.0.1:80"),
        (struct.pack("=H", socket.AF_UNIX) + b"/run/x.sock\0rest", "unix:/run/x.sock"),
        (struct.pack("=H", socket.AF_UNIX) + b"\0abstract\0", "unix:@abstract"),
        (struct.pack("=H2s", socket.AF_INET, b"\0\1"), ""),
        (struct.pack("=H14x", socket.AF_NETLINK), ""),
        (b"", ""),
    ],
)
def test_addresses_as_programs_pass_them(address: bytes, text: str) -> None:
    assert socket_text(address) == text


def test_this_machine(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "held").open("w") as held:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)) as client:
                accepted, _ = server.accept()
                with accepted:
                    known = read_known()
                    for descriptor in (server, client, accepted):
                        assert Descriptor(os.getpid(), descriptor.fileno(), f"127.0.0.1:{port}") in known.descriptors
            assert Descriptor(os.getpid(), held.fileno(), str(tmp_path / "held")) in known.descriptors
        own = {found.thread: found for found in known.threads if found.process == os.getpid()}
        assert {os.getpid(), thread.native_id} <= own.keys()
        assert known.processes()[thread.native_id or 0] == os.getpid()
    finally:
        done.set()
        thread.join()
    without = read_known(without=os.getpid())
    assert os.getpid() not in {found.process for found in without.threads}
    assert os.getpid() not in {found.process for found in without.descriptors}


@pytest.mark.parametrize(("own", "read"), [("net:[5]", ["/proc/self/net"] * 2), ("net:[4]", ["/p/7/net", "/p/8/net"])])
def test_a_process_that_ends_meanwhile_takes_no_names_of_others_sockets_along(
    own: str, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def linked(path: str) -> str:
        if path == "/p/7/ns/net" and found:
            raise FileNotFoundError(path)
        return {"/proc/self/ns/net": own, "/p/7/ns/net": "net:[5]", "/p/8/ns/net": "net:[5]"}.get(path, "socket:[3]")

    def tables(folder: str, *, own: bool) -> dict[int, str]:
        del own
        found.append(folder)
        return {} if folder == "/p/7/net" else {3: "unix:/x"}

    monkeypatch.setattr(known, "link", linked)
    monkeypatch.setattr(known, "names", lambda path: {"/p": ["7", "8"]}.get(path, ["1"] if path.endswith("fd") else []))
    monkeypatch.setattr(known, "_sockets", tables)
    assert read_known("/p").descriptors == [Descriptor(8, 1, "unix:/x")]
    assert found == read


def test_a_unix_socket_leads_where_its_other_end_is(tmp_path: Path) -> None:
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        accepted, _ = server.accept()
        with accepted:
            found = {one.number: one.text for one in read_known().descriptors if one.process == os.getpid()}
    assert sorted(text for text in found.values() if text == f"unix:{path}") == [f"unix:{path}"] * 3


@pytest.mark.parametrize(
    "answer", [b"", bytes(10), struct.pack("=IHHIIi", 20, 2, 0, 0, 0, -1), struct.pack("=IHHII", 4, 20, 0, 0, 0)]
)
def test_an_answer_without_peers(answer: bytes) -> None:
    peers: dict[int, int] = {}
    assert parse_unix_peers(answer, peers) is (len(answer) < 16)
    assert peers == {}


def test_as_events() -> None:
    texts = Texts()
    rows = Known([Thread(8, 7, "worker")], [Descriptor(7, 3, "/x")]).rows(99, texts)
    assert [(row["ts"], row["kind"], row["tid"], row["a"], row["b"], texts[row["text"]]) for row in rows] == [
        (99, Kind.NAMED, 8, 8, 7, "worker"),
        (99, Kind.OPENED, 7, 3, 0, "/x"),
    ]
    assert len(Known([], []).rows(99, texts)) == 0
