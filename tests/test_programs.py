"""How tests come by the programs that they need, and what a run says of those that it cannot have."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests import debian
from tests.programs import MissingPartError, cache_folder, file_of, kept

ROOT = Path(__file__).parents[1]

NEEDS_CHROMIUM = """
import pytest
from tests.programs import path_of

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    path_of("chromium")

@pytest.fixture(scope="module")
def browser():
    return path_of("chromium")

def test_with_a_fixture(browser): ...

def test_without(): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_part_that_cannot_be_had_skips_its_tests_or_fails_them_in_ci(tmp_path: Path, ci: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(NEEDS_CHROMIUM)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    environment = {"PATH": "/none", "XDG_CACHE_HOME": str(tmp_path), "CI": ci, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.conftest", tmp_path],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    if ci:
        assert re.search(r"\b3 failed, 1 passed, 1 error\b", last), done.stdout
        assert "Chromium: missing, `apt install chromium " in done.stdout
    else:
        assert re.search(r"\b1 passed, 4 skipped\b", done.stdout), done.stdout
        assert re.fullmatch(r"left out: 4 tests that need Chromium, which `apt install chromium .*` brings", last)


HANGS = """
import os, signal, subprocess, time

reading, writing = os.pipe()

def test_whose_end_waits():
    with subprocess.Popen(["cat"], stdin=reading):
        time.sleep(250)

def test_that_hears_nothing():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(250)
"""


@pytest.mark.slow
def test_a_test_that_does_not_end_is_ended_and_told(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntimeout = 2\nfaulthandler_timeout = 8\nfaulthandler_exit_on_timeout = true\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "--max-worker-restart", "0", "-p", "tests.conftest", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200.0,
    )
    assert done.returncode == 1, done.stdout
    assert re.search(r"^FAILED test_it\.py::test_whose_end_waits - Failed: Timeout", done.stdout, re.MULTILINE)
    assert "crashed while running 'test_it.py::test_that_hears_nothing'" in done.stdout
    assert 'test_it.py", line 12 in test_that_hears_nothing' in done.stderr


def test_what_cannot_be_made_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried = []

    def fail(folder: Path) -> Path:
        tried.append(folder)
        raise MissingPartError("a part", "a command", "no network")

    for _ in range(2):
        with pytest.raises(MissingPartError, match="a part: missing, `a command` brings it"):
            kept("a-part", fail)
    assert len(tried) == 1
    assert not (tmp_path / "laggard-tests/a-part").exists()


@pytest.mark.slow
def test_what_debians_packages_hold_runs_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "making").mkdir()
    try:
        taken = debian.take(tmp_path / "making", cache_folder() / "debian-lists", ("jq",))
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPartError("Debian's packages", "a network", str(error)) from None
    script = debian.write_starter(taken, "jq", '"$root/usr/bin/jq" "$SAID" "$@"', {"SAID": "--compact-output"})
    moved = taken.rename(tmp_path / "moved to")
    command = [str(moved / script.relative_to(taken)), "[.a]"]
    said = subprocess.run(command, input='{"a": 1}', capture_output=True, text=True, check=True)
    assert said.stdout == "[1]\n"


@pytest.mark.slow
def test_java_reads_the_authorities_that_are_written_for_it(tmp_path: Path) -> None:
    keytool = file_of("java").with_name("keytool")
    debian.write_java_certificates(tmp_path / "cacerts")
    listing = [str(keytool), "-list", "-keystore", str(tmp_path / "cacerts"), "-storepass", "changeit"]
    said = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    trusted = ssl.create_default_context(cafile=debian.CERTIFICATES).get_ca_certs()
    assert said.count("trustedCertEntry") == len(trusted) > 50
