"""Files that other users could have written: a configuration, a bus, what is kept in the state directory."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusError
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.claims import Claim, claim_path, holder_of
from laggard.pipeline.core.trusted import (
    Untrusted,
    check_beside,
    check_folder,
    distrust,
    open_trusted,
    read_trusted,
    write_trusted,
)
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.methods.diagnoses.unfinished import Unfinished
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from tests.pipeline.conftest import Called

NOBODY = pwd.getpwnam("nobody").pw_uid

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")


@needs_root
def test_a_configuration_that_a_stranger_left_here_is_refused(laggard: Called, nowhere: Path) -> None:
    """Root works in a folder that others may write to; the file would let everybody reach the page."""
    config = nowhere / "laggard.toml"
    config.write_text('[serve]\nlisten = "0.0.0.0:9463"\ntoken = "0123456789abcdef-of-nobody"\n')
    os.chown(config, NOBODY, -1)
    code, out, err = laggard("why")
    assert (code, out) == (2, "")
    assert err == (
        "laggard: laggard.toml: the configuration file cannot be read: it belongs to nobody, expected root; run "
        "laggard as that user, or `chown` on what you trust\n"
    )


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (0o666, "it is writable by all users; run `chmod o-w` on it"),
        (0o646, "it is writable by all users; run `chmod o-w` on it"),
        (0o644, ""),
        (0o600, ""),
    ],
)
def test_a_configuration_that_others_may_write_is_refused(tmp_path: Path, mode: int, reason: str) -> None:
    config = tmp_path / "some.toml"
    config.write_text('host = "web-1"')
    config.chmod(mode)
    if not reason:
        assert read_settings(config, {"HOME": "/"})[GeneralSettings].host == "web-1"
        return
    with pytest.raises(SettingError) as refused:
        read_settings(config, {"HOME": "/"})
    assert refused.value.problems == (f"{config}: the configuration file cannot be read: {reason}",)


@needs_root
@pytest.mark.parametrize(
    ("owner", "group", "accepted"),
    [("daemon", "daemon", False), ("root", "daemon", False), ("root", "root", True)],
)
def test_a_group_may_write_where_it_is_its_owners_private_one(
    tmp_path: Path, owner: str, group: str, accepted: bool
) -> None:
    config = tmp_path / "some.toml"
    config.write_text('host = "web-1"')
    config.chmod(0o664)
    os.chown(config, pwd.getpwnam(owner).pw_uid, pwd.getpwnam(group).pw_gid)
    if accepted:
        os.close(open_trusted(config))
    else:
        with pytest.raises(Untrusted):
            open_trusted(config)


def test_a_private_group_has_the_name_of_its_owner_and_no_other_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `useradd` makes it, and `umask 002` needs it. The machine's own accounts take no part."""
    people = [("me", 1000, 1000), ("you", 1001, 1001), ("third", 1002, 100)]
    groups = {100: ("users", []), 1000: ("me", []), 1001: ("you", []), 50: ("team", ["me", "you"]), 60: ("empty", [])}

    def account(name: str, uid: int, gid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))

    def group(gid: int) -> grp.struct_group:
        name, members = groups[gid]
        return grp.struct_group((name, "x", gid, members))

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwall", lambda: [account(*each) for each in people])
    monkeypatch.setattr(grp, "getgrgid", group)

    def reason(gid: int, uid: int = 1000) -> str:
        return distrust(os.stat_result((0o100664, 1, 1, 1, uid, gid, 0, 0, 0, 0)))

    assert reason(1000) == ""
    assert reason(0, uid=0) == ""
    assert reason(12345) == "", "a group without a name, as containers have it"
    assert reason(100) == "it is writable by the group users; run `chmod g-w` on it"
    assert reason(50) == "it is writable by the group team; run `chmod g-w` on it"
    assert reason(60), "whoever is in it by a directory service is not listed"
    groups[1000] = ("me", ["you"])
    assert reason(1000) == "it is writable by the group me; run `chmod g-w` on it"


@needs_root
def test_who_called_sudo_is_trusted_for_his_own_files_by_root_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "some.toml"
    config.write_text("")
    os.chown(config, NOBODY, -1)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    os.close(open_trusted(config))
    for other in ("1", "-1", "x", ""):
        monkeypatch.setenv("SUDO_UID", other)
        with pytest.raises(Untrusted):
            open_trusted(config)


def test_links_of_a_mounted_volume_are_followed(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: what the links lead to is what is checked."""
    (tmp_path / "..2026_11_27").mkdir()
    (tmp_path / "..2026_11_27/laggard.toml").write_text('host = "web-1"')
    (tmp_path / "..data").symlink_to("..2026_11_27")
    (tmp_path / "laggard.toml").symlink_to("..data/laggard.toml")
    assert read_settings(tmp_path / "laggard.toml", {"HOME": "/"})[GeneralSettings].host == "web-1"


def test_a_pipe_is_read_where_its_owner_is_trusted(tmp_path: Path) -> None:
    """`--config <(...)`; and one that a stranger made does not block."""
    reading, writing = os.pipe()
    os.write(writing, b'host = "web-1"')
    os.close(writing)
    assert read_settings(Path(f"/dev/fd/{reading}"), {"HOME": "/"})[GeneralSettings].host == "web-1"
    os.close(reading)
    os.mkfifo(tmp_path / "laggard.toml")
    (tmp_path / "laggard.toml").chmod(0o666)
    with pytest.raises(SettingError, match="writable by all users"):
        read_settings(tmp_path / "laggard.toml", {"HOME": "/"})
    with pytest.raises(SettingError, match="expected a regular file"):
        read_settings(Path("/dev/null"), {"HOME": "/"})


@needs_root
def test_a_bus_that_a_stranger_made_is_refused(tmp_path: Path) -> None:
    """In a folder such as /tmp, where all users may make files, and none may replace those of others."""
    tmp_path.chmod(0o1777)
    path = tmp_path / "laggard.db"
    sqlite3.connect(path).close()
    path.touch()
    os.chown(path, NOBODY, -1)
    with pytest.raises(BusError, match=r"laggard\.db: the bus cannot be used: it belongs to nobody, expected root"):
        EmbeddedBus(path)
    path.unlink()
    EmbeddedBus(path).close()
    for end in ("-wal", "-shm", "-journal"):
        planted = tmp_path / f"laggard.db{end}"
        planted.write_bytes(b"")
        os.chown(planted, NOBODY, -1)
        with pytest.raises(BusError, match=rf"laggard\.db{end}: the bus cannot be used: it belongs to nobody"):
            EmbeddedBus(path)
        planted.unlink()
        planted.symlink_to(tmp_path / "elsewhere")
        os.chown(planted, NOBODY, -1, follow_symlinks=False)
        with pytest.raises(BusError, match=rf"laggard\.db{end}: the bus cannot be used: it belongs to nobody"):
            EmbeddedBus(path)
        planted.unlink()


def test_a_bus_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "laggard.db"
    EmbeddedBus(path).close()
    path.chmod(0o666)
    with pytest.raises(BusError, match="writable by all users"):
        EmbeddedBus(path)
    path.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(BusError, match=rf"{tmp_path}: the bus cannot be used: it is writable by all users"):
        EmbeddedBus(path)
    tmp_path.chmod(0o1777)
    EmbeddedBus(path).close()


def test_a_check_takes_no_locks_away(tmp_path: Path) -> None:
    """POSIX takes them away with any descriptor of the file that is closed."""
    path = tmp_path / "file"
    path.touch()
    ours = os.open(path, os.O_RDWR)
    os.lockf(ours, os.F_LOCK, 0)
    check_beside(path)
    child = os.fork()
    if child == 0:
        try:
            os.lockf(os.open(path, os.O_RDWR), os.F_TLOCK, 0)
        except BlockingIOError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.close(ours)


@needs_root
def test_a_claim_and_a_state_directory_of_a_stranger_are_refused(tmp_path: Path) -> None:
    bus, state = str(tmp_path / "laggard.db"), tmp_path / "state"
    tmp_path.chmod(0o1777)
    planted = claim_path(bus, state, "serve")
    planted.write_text('{"pid": 1, "since": 1, "url": "http://192.0.2.1/"}')
    os.chown(planted, NOBODY, -1)
    # A new inode, which the kernel does not protect as it does other people's files in such folders.
    with pytest.raises(OSError, match=r"laggard\.db\.serve\.lock"):
        Claim(bus, state, "serve")
    with pytest.raises(Untrusted, match="it belongs to nobody"):
        holder_of(bus, state, "serve")
    planted.unlink()
    state.mkdir()
    os.chown(state, NOBODY, -1)
    with pytest.raises(Untrusted, match="it belongs to nobody"):
        Claim(bus, state, "serve")


def test_a_state_directory_that_others_may_write(laggard: Called, nowhere: Path) -> None:
    state = nowhere / "state"
    state.mkdir()
    state.chmod(0o777)
    for command in ("agent", "work", "serve", "up"):
        _, _, err = laggard(command)
        assert err.startswith(f"laggard: {state}: it is writable by all users; run `chmod o-w` on it"), command


def test_a_folder_that_root_mounted_for_all_is_taken(tmp_path: Path) -> None:
    """As Kubernetes does with an `emptyDir`: in a container only laggard is there."""
    shared = Path("/dev/shm")
    if shared.stat().st_uid or not shared.is_mount():
        pytest.skip("no such mount here")
    check_folder(shared)
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(Untrusted):
        check_folder(folder)


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_that_others_could_replace_is_refused_by_the_one_that_it_is_in(tmp_path: Path, link: bool) -> None:
    above, folder = tmp_path / "above", tmp_path / "above/between/folder"
    folder.mkdir(parents=True)
    asked = folder
    if link:
        asked = tmp_path / "link/.."
        (tmp_path / "link").symlink_to(folder)
    check_folder(asked)
    above.chmod(0o777)
    with pytest.raises(Untrusted, match="writable by all users, who could replace what is below") as refused:
        check_folder(asked)
    assert refused.value.filename == str(above.resolve())
    above.chmod(0o1777)
    check_folder(asked)  # they can rename none of laggard's files there


def test_a_link_in_a_folder_of_others_is_refused_wherever_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_all, ours = tmp_path / "open", tmp_path / "ours"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    ours.mkdir(mode=0o700)
    (open_to_all / "link").symlink_to(ours)
    (open_to_all / "up").symlink_to("../ours")
    for name in ("link", "up"):
        with pytest.raises(Untrusted) as refused:
            check_folder(open_to_all / name)
        assert refused.value.filename == str(open_to_all.resolve())
    monkeypatch.chdir(tmp_path)
    check_folder("ours")
    with pytest.raises(Untrusted):
        check_folder("open/link")


def test_links_that_go_round_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        check_folder(tmp_path / "one")
    with pytest.raises(FileNotFoundError):
        check_folder(tmp_path / "three")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    check_folder(tmp_path)
    (tmp_path / "file").touch()
    for name in ("a/b", "file", "file/a"):
        with pytest.raises((FileNotFoundError, NotADirectoryError), match=str(tmp_path / name)):
            check_folder(tmp_path / name)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_root
def test_a_folder_in_that_of_a_stranger_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "of another/ours"
    folder.mkdir(parents=True)
    os.chown(folder.parent, 12345, -1)
    with pytest.raises(
        Untrusted, match="it belongs to user 12345, who could replace what is below; use another folder"
    ):
        check_folder(folder)


def asks_in_a_namespace_of_its_own(folder: Path, uid: int) -> None:
    """Let another user ask of a folder in a namespace of users that has him alone; never returns."""
    try:
        libc = ctypes.CDLL(None)
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        check_folder(folder)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: else its files below /proc are root's
        if libc.unshare(0x10000000):  # CLONE_NEWUSER
            os._exit(77)
        Path("/proc/self/uid_map").write_bytes(b"%d %d 1\n" % (uid, uid))
        assert Path("/").stat().st_uid not in {0, uid}
        check_folder(folder)
    except Untrusted:
        os._exit(2)
    except BaseException:  # noqa: BLE001 - it must not come back into pytest
        os._exit(1)
    os._exit(0)


@needs_root
@pytest.mark.parametrize(("mode", "code"), [(0o755, 0), (0o777, 2)])
def test_in_a_namespace_of_users_that_has_no_root_its_folders_are_no_strangers(mode: int, code: int) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as above:
        folder = Path(above, "of it")
        folder.mkdir()
        os.chown(folder, 12345, 12345)
        Path(above).chmod(mode)
        if (child := os.fork()) == 0:
            asks_in_a_namespace_of_its_own(folder, 12345)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == 77:
        pytest.skip("no namespaces of users here")
    assert ended == code


@needs_root
def test_what_is_kept_is_written_beside_links_and_files_of_strangers(tmp_path: Path) -> None:
    kept, precious = tmp_path / "diagnoses.jsonl", tmp_path / "precious"
    precious.write_text("content")
    (tmp_path / "diagnoses.jsonl.new").symlink_to(precious)
    write_trusted(kept, "ours")
    assert (kept.read_text(), kept.stat().st_mode & 0o777, precious.read_text()) == ("ours", 0o600, "content")
    assert read_trusted(kept, 4) == b"ours"
    with pytest.raises(OSError, match="expected at most 3 bytes"):
        read_trusted(kept, 3)
    os.chown(kept, NOBODY, -1)
    assert Unfinished(kept).read() == []
    with pytest.raises(Untrusted):
        read_trusted(kept, 4)
