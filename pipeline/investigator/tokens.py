"""A generated token for the page, where other users of the machine must not see what root sees."""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.trusted import check_folder, open_trusted
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.web.listen import ListenError, check_token

if TYPE_CHECKING:
    from laggard.pipeline.settings import Settings

FILE: Final = "serve.token"
"""The name of the file, in the directory `state`."""

FIRST_PERSON: Final = 1000
"""The lowest uid of a person's account (login.defs: UID_MIN); lower ones belong to services."""

_NOBODY: Final = 65534
_NO_SHELLS: Final = {"nologin", "false"}
_RANDOM_BYTES: Final = 24
_MAX_BYTES: Final = 4096


class Token(NamedTuple):
    """A generated token.

    Attributes:
        value: the token that callers must show.
        path: its file, which only this user may read.
        why: the reason for it, in words.
        new: whether it was generated just now, so that no person knows it yet.

    """

    value: str
    path: Path
    why: str
    new: bool

    def link(self, url: str) -> str:
        """Return the page's address with the token in its fragment, which browsers never send."""
        return f"{url}/#token={self.value}"


def token_of(settings: Settings) -> Token | None:
    """Return the generated token of the page, made if missing; None if the page needs no generated token.

    Raises:
        ListenError: it is needed, and cannot be stored: the message says why.

    """
    why = asks_because(settings)
    if not why:
        return None
    path = settings[GeneralSettings].state / FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(path.parent)
        new = not os.path.lexists(path) and _make(path)
        value = _read(path)
    except OSError as error:
        raise ListenError(
            f"serve.require_token: the page asks for a token, because {why}, and {error.filename} cannot keep it: "
            f"{error.strerror}; or set serve.token, or serve.require_token to never"
        ) from None
    check_token(value, str(path))
    return Token(value, path, why, new)


def asks_because(settings: Settings, proc: Path = Path("/proc")) -> str:
    """Return why the page needs a generated token; empty if it needs none, or if the settings authenticate callers."""
    serve = settings[ServeSettings]
    if serve.token or serve.read_token or serve.proxies:
        return ""
    match serve.require_token:
        case "never":
            return ""
        case "always":
            return "serve.require_token says so"
    if os.geteuid() == 0 and (names := people()):
        return f"it shows what root sees, and {_listed(names)} may log in here"
    return "processes are hidden from other users here (hidepid)" if _hides(proc) else ""


def people() -> list[str]:
    """Return the people's accounts that may log in here, except for root, this user and the user who called sudo."""
    known = {0, os.geteuid(), _NOBODY}
    with suppress(ValueError):
        known.add(int(os.environ.get("SUDO_UID", "")))
    return sorted(
        each.pw_name
        for each in pwd.getpwall()
        if each.pw_uid >= FIRST_PERSON and each.pw_uid not in known and Path(each.pw_shell).name not in _NO_SHELLS
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _hides(proc: Path) -> bool:
    """Return whether /proc is mounted so that users do not see each other's processes."""
    try:
        mounts = (proc / "self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return False
    options = [fields[3].split(",") for line in mounts if (fields := line.split())[1:3] == ["/proc", "proc"]]
    # The last mount covers earlier ones.
    return any(
        name == "hidepid" and value not in {"0", "off"}
        for name, _, value in (each.partition("=") for each in (options[-1] if options else []))
    )


def _make(path: Path) -> bool:
    """Make the file, and return whether it was missing. Processes that race get the same, complete file."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(f"{secrets.token_urlsafe(_RANDOM_BYTES)}\n")
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True


def _read(path: Path) -> str:
    with os.fdopen(open_trusted(path), "rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise PermissionError(0, "others may read it; remove it, and a new one is made", str(path))
        value = file.read(_MAX_BYTES).decode("ascii", "replace").strip()
    if not value:
        raise OSError(0, "got an empty file; remove it, and a new one is made", str(path))
    return value
