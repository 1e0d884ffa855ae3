"""What fills up: filesystems, file descriptors, process ids; and what is left out."""

from __future__ import annotations

import os

import pytest

from laggard.producers.host.filling import MAX_FILESYSTEMS, MAX_NAME, MOUNTS_S, Filling, local_mounts
from laggard.producers.system.clock import Clock


def usage(total=1000, free=400, available=300, files=100, free_files=90):
    found = [4096, 4096, total, free, available, files, free_files, free_files, 0, 255]
    return os.statvfs_result(found)


@pytest.fixture
def filling(machine, time):
    machine.write("self/mounts", "/dev/sda1 / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n")
    machine.write("sys/fs/file-nr", "900\t100\t1000\n")
    machine.write("sys/kernel/pid_max", "4194304\n")
    machine.write("sys/kernel/threads-max", "1000\n")
    machine.write("loadavg", "0.50 0.25 0.10 1/250 10214\n")
    return Filling(time.clock, str(machine.root), lambda _: usage())


def test_shares_are_those_of_what_may_be_used(filling):
    assert filling.read() == {
        "filesystem_/_used_ratio": pytest.approx(600 / 900),  # as df says: what is kept for root is no room
        "filesystem_/_unused_bytes": 300 * 4096.0,
        "descriptors_used_ratio": 0.8,
        "pids_used_ratio": 0.25,
    }


def test_of_bytes_and_inodes_the_scarcer_counts(machine, time, filling):
    found = Filling(time.clock, str(machine.root), lambda _: usage(files=100, free_files=3)).read()
    assert found["filesystem_/_used_ratio"] == pytest.approx(0.97)
    without = Filling(time.clock, str(machine.root), lambda _: usage(files=0, free_files=0)).read()  # btrfs
    assert without["filesystem_/_used_ratio"] == pytest.approx(600 / 900)


@pytest.mark.parametrize(
    ("name", "text", "gone"),
    [
        ("sys/fs/file-nr", "12 0\n", "descriptors_used_ratio"),
        ("sys/fs/file-nr", "a b c\n", "descriptors_used_ratio"),
        ("sys/fs/file-nr", "1 0 0\n", "descriptors_used_ratio"),
        ("loadavg", "1 2 3\n", "pids_used_ratio"),
        ("loadavg", "", "pids_used_ratio"),
        ("self/mounts", "", "filesystem_/_used_ratio"),
        ("self/mounts", "x\n\n/dev/sda1\n", "filesystem_/_used_ratio"),
    ],
)
def test_what_cannot_be_read_is_left_out(machine, filling, name, text, gone):
    machine.write(name, text)
    assert gone not in filling.read()


def test_a_filesystem_that_is_gone_is_left_out(machine, time, filling):
    def of(mount):
        raise FileNotFoundError(mount)

    assert set(Filling(time.clock, str(machine.root), of).read()) == {"descriptors_used_ratio", "pids_used_ratio"}


def test_mounts_are_looked_for_now_and_then(machine, time, filling):
    filling.read()
    machine.write("self/mounts", "/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 /srv xfs rw 0 0\n")
    assert not any("/srv" in each for each in filling.read())
    time.pass_(MOUNTS_S)
    assert "filesystem_/srv_used_ratio" in filling.read()


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/dev/sda1 / ext4 rw 0 0\n/dev/sda2 /home btrfs rw 0 0\npool/x /tank zfs rw 0 0", ("/", "/home", "/tank")),
        ("overlay / overlay rw,lowerdir=/a 0 0\noverlay /var/lib/docker/x overlay rw 0 0", ("/",)),
        ("/dev/sda1 /etc/hosts ext4 rw 0 0\n/dev/sda1 /data ext4 rw 0 0\n/dev/sda1 / ext4 rw 0 0", ("/",)),
        ("/dev/loop0 /snap/x squashfs ro 0 0\n/dev/sr0 /cdrom iso9660 ro 0 0\n/dev/sdb1 /old ext4 ro,noatime 0 0", ()),
        ("nas:/x /nas nfs4 rw 0 0\n//nas/y /y cifs rw 0 0\ntmpfs /tmp tmpfs rw 0 0", ()),
        # Whoever serves a filesystem of a user's names its source, and may keep whoever asks waiting.
        ("/dev/sda9 /home/eve/trap fuse rw,user_id=1000 0 0\n/dev/sdb1 /home/eve/ntfs fuseblk rw 0 0", ()),
        ("/dev/sdb1 /mnt/my\\040disk ext4 rw 0 0", ("/mnt/my disk",)),
        ("/dev/sdb1 /mnt/a\\012b ext4 rw 0 0", ()),
        (f"/dev/sdb1 /{'a' * MAX_NAME} ext4 rw 0 0", ()),
        ("", ()),
    ],
)
def test_only_local_filesystems_are_asked(mounts, expected):
    assert local_mounts(mounts) == expected


def test_of_many_filesystems_the_first_are_taken():
    mounts = "".join(f"/dev/sd{number} /m{number:03} ext4 rw 0 0\n" for number in range(3 * MAX_FILESYSTEMS))
    assert local_mounts(mounts) == tuple(f"/m{number:03}" for number in range(MAX_FILESYSTEMS))


def test_this_machine():
    found = Filling(Clock()).read()
    assert 0.0 < found["pids_used_ratio"] < 1.0
    assert all(0.0 <= value <= 1.0 for name, value in found.items() if name.endswith("_ratio"))
