"""The token that the page asks for though none is set: where, and how it is kept."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.investigator.access import page_listen
from laggard.pipeline.investigator.tokens import FILE, asks_because, people, token_of
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.web.listen import ListenError

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.settings import Settings

HIDDEN = "processes are hidden from other users here (hidepid)"


def settings(state: Path, **given: str) -> Settings:
    told = {"state": str(state)} | {f"serve.{name}": value for name, value in given.items()}
    return read_settings(None, environ={}, flags=[Given(name, value, "a test") for name, value in told.items()])


def accounts(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, int, str], uid: int = 0) -> None:
    """The accounts of a machine, and its own user."""
    every = [pwd.struct_passwd((name, "x", number, number, "", "/", shell)) for name, number, shell in found]
    monkeypatch.setattr(pwd, "getpwall", lambda: every)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.delenv("SUDO_UID", raising=False)


SERVICES = (
    ("root", 0, "/bin/bash"),
    ("postgres", 113, "/bin/bash"),
    ("nobody", 65534, "/bin/sh"),
    ("ftp", 1001, "/usr/sbin/nologin"),
    ("old", 1002, "/bin/false"),
)


def proc_with(folder: Path, *mounts: str) -> Path:
    (folder / "self").mkdir(parents=True, exist_ok=True)
    (folder / "self/mounts").write_text("".join(f"{each}\n" for each in mounts))
    return folder


def test_root_asks_where_people_have_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = proc_with(tmp_path / "proc", "proc /proc proc rw,nosuid 0 0")
    accounts(monkeypatch, *SERVICES)
    assert people() == []
    assert asks_because(settings(tmp_path), proc) == ""
    accounts(monkeypatch, *SERVICES, ("alice", 1000, "/bin/bash"), ("eve", 1003, ""))
    assert asks_because(settings(tmp_path), proc) == "it shows what root sees, and alice, eve may log in here"
    monkeypatch.setenv("SUDO_UID", "1000")
    assert people() == ["eve"], "who called sudo may see what root sees"
    many = [(f"user{number}", 2000 + number, "/bin/sh") for number in range(9)]
    accounts(monkeypatch, *many)
    assert asks_because(settings(tmp_path), proc).endswith("user0, user1 and 7 more may log in here")
    accounts(monkeypatch, *many, uid=2000)
    assert asks_because(settings(tmp_path), proc) == "", "others see what he sees"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("rw,hidepid=2", HIDDEN),
        ("rw,gid=5,hidepid=invisible", HIDDEN),
        ("rw,hidepid=ptraceable", HIDDEN),
        ("rw,hidepid=0", ""),
        ("rw,hidepid=off", ""),
        ("rw", ""),
    ],
)
def test_so_does_who_sees_what_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, why: str
) -> None:
    accounts(monkeypatch, uid=1000)
    mounts = ("proc /srv/jail/proc proc rw,hidepid=2 0 0", "proc /proc proc rw,hidepid=1 0 0")
    proc = proc_with(tmp_path / "proc", *mounts, f"proc /proc proc {options} 0 0", "tmpfs /tmp tmpfs rw 0 0")
    assert asks_because(settings(tmp_path), proc) == why
    assert asks_because(settings(tmp_path), tmp_path / "nothing") == ""


def test_settings_have_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts(monkeypatch, ("alice", 1000, "/bin/bash"))
    assert asks_because(settings(tmp_path, require_token="never")) == ""
    for given in ({"token": "a" * 16}, {"read_token": "a" * 16}, {"proxies": "10.0.0.1"}):
        assert token_of(settings(tmp_path, require_token="always", **given)) is None
    accounts(monkeypatch)
    assert asks_because(settings(tmp_path, require_token="always")) == "serve.require_token says so"
    # It is for this machine: what others may reach needs one that a person chose.
    with pytest.raises(ListenError, match="can be reached from other machines"):
        page_listen(settings(tmp_path, require_token="always", listen="0.0.0.0:0"))


def test_it_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = token_of(settings(state, require_token="always"))
    assert first is not None
    assert first.new
    assert (state.stat().st_mode & 0o777, first.path.stat().st_mode & 0o777) == (0o700, 0o600)
    assert first.link("http://127.0.0.1:9463") == f"http://127.0.0.1:9463/#token={first.value}"
    second = token_of(settings(state, require_token="always"))
    assert second == first._replace(new=False)
    assert [each.name for each in state.iterdir()] == [FILE]
    other = token_of(settings(tmp_path / "other", require_token="always"))
    assert other is not None
    assert other.value != first.value


def test_processes_that_make_it_at_once_have_one(tmp_path: Path) -> None:
    given = settings(tmp_path, require_token="always")
    reading, writing = os.pipe()
    for _ in range(8):
        if os.fork() == 0:
            token = token_of(given)
            os.write(writing, b"nothing\n" if token is None else f"{token.value} {token.new}\n".encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = [line.split() for line in told]
    for _ in range(8):
        os.wait()
    assert len(found) == 8
    assert len({value for value, _ in found}) == 1
    assert [new for _, new in found].count("True") == 1


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("a" * 32, 0o644, "others may read it; remove it, and a new one is made"),
        ("a" * 32, 0o620, "others may read it|is writable by the group"),
        ("short", 0o600, "expected at least 16 printable ASCII characters"),
        ("", 0o600, "got an empty file; remove it, and a new one is made"),
    ],
)
def test_one_that_others_may_know_is_refused(tmp_path: Path, content: str, mode: int, said: str) -> None:
    path = tmp_path / FILE
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ListenError, match=said):
        token_of(settings(tmp_path, require_token="always"))


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ListenError, match="cannot keep it"):
        token_of(settings(tmp_path, require_token="always"))
    assert not (tmp_path / "elsewhere").exists()
