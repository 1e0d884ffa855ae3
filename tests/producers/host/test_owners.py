from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from laggard.producers.host.owners import Users, parse_container, parse_passwd, parse_uid

if TYPE_CHECKING:
    from pathlib import Path

ID = "4f66ad9a2b2e1c0d" * 4
POD = "0d206349-0faf-445c-9b5f-3c1d4b5a6e7f"
SLICE = f"kubepods-burstable-pod{POD.replace('-', '_')}.slice"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"0::/system.slice/docker-{ID}.scope", "docker:4f66ad9a2b2e"),
        (f"0::/docker/{ID}", "docker:4f66ad9a2b2e"),
        (f"0::/docker/{ID}/init.scope", "docker:4f66ad9a2b2e"),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "podman:4f66ad9a2b2e"),
        (f"0::/kubepods.slice/{SLICE}/cri-containerd-{ID}.scope", "kubernetes:4f66ad9a2b2e"),
        (f"0::/kubepods/besteffort/pod{POD}/{ID}", "kubernetes:4f66ad9a2b2e"),
        (f"0::/system.slice/containerd.service/{ID}", "container:4f66ad9a2b2e"),
        ("0::/lxc.payload.web/system.slice/nginx.service", "lxc:web"),
        ("0::/lxc/web", "lxc:web"),
        ("0::/system.slice/nginx.service", "nginx.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox.scope", "app-firefox.scope"),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/", "docker:4f66ad9a2b2e"),
        ("9:name=systemd:/system.slice/cron.service\n8:pids:/\n0::/", "cron.service"),
        ("0::/", ""),
        ("", ""),
        ("0::/a:b/c\x1b[31m.service", "c?[31m.service"),
        ("0::/" + "x" * 300 + ".service", "x" * 64),
        ("0::/lxc.payload.<script>/x", "lxc:<script>"),
    ],
)  # fmt: skip
def test_the_innermost_container_is_told_or_else_the_unit(text: str, told: str) -> None:
    assert parse_container(text.encode()) == told


def test_the_effective_user_is_told() -> None:
    assert parse_uid(b"Name:\tUid:\t7\nUmask:\t0022\nUid:\t1000\t33\t0\t33\nGid:\t0\n") == 33
    assert parse_uid(b"Name:\tx\n") is None
    assert parse_uid(b"") is None


def test_users_are_read_by_number_and_malformed_lines_are_skipped() -> None:
    text = b"# x\nroot:x:0:0::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\n+::::::\nbad:x:-1:0\nr\xff:x:5:5\n:x:6:6\n"
    assert parse_passwd(text) == {0: "root", 5: "r\N{REPLACEMENT CHARACTER}"}


def test_a_user_that_is_added_is_known_from_then_on(tmp_path: Path) -> None:
    passwd = tmp_path / "1/root/etc/passwd"
    passwd.parent.mkdir(parents=True)
    passwd.write_text("a:x:1:1::/:/bin/sh\n")
    users = Users(str(tmp_path))
    users.refresh()
    assert (users.name(1), users.name(2)) == ("a", "2")
    passwd.with_name("new").write_text("a:x:1:1::/:/bin/sh\nb:x:2:2::/:/bin/sh\n")
    passwd.with_name("new").replace(passwd)
    users.refresh()
    assert users.name(2) == "b"


def test_the_users_of_this_machine_are_those_of_its_library() -> None:
    users = Users()
    users.refresh()
    assert users.name(os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_name
