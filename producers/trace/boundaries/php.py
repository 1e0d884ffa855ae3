"""Requests of PHP, by the probes of its authors.

PHP has them if it was built with `--enable-dtrace`, as on Debian and Ubuntu. They are in the interpreter, not in the
pages: applications need no change.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laggard.producers.diagnosis.addresses import mapped_files
from laggard.producers.system.foreign import names, opened
from laggard.producers.trace.boundaries import usdt
from laggard.producers.trace.boundaries.elf import Program, ProgramError
from laggard.producers.trace.boundaries.probes import Probe
from laggard.producers.trace.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE: Final = "php"

MAPS_BYTES: Final = 4 << 20
"""The most bytes of a process's list of mappings that are read."""

_PROGRAM: Final = re.compile(r"(php-fpm|php|libphp)[\d.]*(\.so)?")
_STARTUP, _SHUTDOWN = "request__startup", "request__shutdown"
_TEXTS: Final = {"method": 2, "uri": 1}  # of the startup's arguments: file, URI and method (Zend/zend_dtrace.d)

# The URI of the startup is that of the script, `/index.php` of all pages of most applications. The URI that the client
# requested is in the table of FastCGI's variables: `sapi_globals` begins with a pointer to it. The layout is that of
# main/fastcgi.c with 64 bits since PHP 7.0. In another layout, the name of the variable is not there.
_REQUEST: Final = "sapi_globals"
_VARIABLE: Final = "REQUEST_URI"
_TABLE_AT: Final = 8296  # `env` of struct _fcgi_request
_TABLE_SIZE: Final = 128
_KEY_AT, _VALUE_AT, _NEXT_AT = 8, 24, 32  # of struct _fcgi_hash_bucket
_DEPTH: Final = 2  # two of 40 variables in 128 chains are rarely before it


def php_probes(path: Path, service: str = SERVICE, *, number: int = 0) -> list[Probe]:
    """Return the probes of the start and the end of a request in an interpreter.

    Args:
        path: the program or library.
        service: the service of the requests.
        number: distinguishes several interpreters of a recording.

    Raises:
        ProgramError: it has no such probes.

    """
    with Program(path) as program:
        found = {probe.name: probe for probe in program.probes() if probe.provider == "php"}
        if not {_STARTUP, _SHUTDOWN} <= found.keys():
            raise ProgramError(
                f"{path}: has no probes {_STARTUP} and {_SHUTDOWN} (USDT): expected a PHP built with --enable-dtrace, "
                "as in Debian"
            )
        begin, end = found[_STARTUP], found[_SHUTDOWN]
        request = program.variable(_REQUEST, begin.offset)
    if len(begin.arguments) <= max(_TEXTS.values()):
        raise ProgramError(f"{path}: its probe {_STARTUP} has {len(begin.arguments)} arguments, expected 3")
    arguments = tuple(usdt.text_argument(name, begin.arguments[index]) for name, index in _TEXTS.items())
    entries: tuple[tuple[str, str], ...] = ()
    if request is not None:
        arguments += tuple(_entries(request))
        entries = tuple((f"key{depth}", f"value{depth}") for depth in range(_DEPTH))
    return [
        Probe(
            f"php{number}_begin",
            usdt.place(path, begin),
            Kind.BEGIN,
            service,
            arguments,
            tuple(_TEXTS),
            variable=_VARIABLE if entries else "",
            entries=entries,
        ),
        Probe(f"php{number}_end", usdt.place(path, end), Kind.END, service),
    ]


def _entries(request: int) -> Iterator[str]:
    """Yield the definitions that fetch the first entries of the chain of the table in which the variable is, if any.

    Args:
        request: the place of the pointer to the request, as seen from the probe.

    """
    entry = f"+{_TABLE_AT + 8 * (_hash(_VARIABLE) % _TABLE_SIZE)}(@+{request:#x})"
    for depth in range(_DEPTH):
        yield f"key{depth}=+0(+{_KEY_AT}({entry})):ustring"
        yield f"value{depth}=+0(+{_VALUE_AT}({entry})):ustring"
        entry = f"+{_NEXT_AT}({entry})"


def _hash(variable: str) -> int:
    """Return the hash of a variable's name in FastCGI's table: `FCGI_HASH_FUNC` of main/fastcgi.h.

    >>> _hash("REQUEST_URI")
    1955
    """
    name = variable.encode()
    return (name[3] << 2) + (name[-2] << 4) + (name[-1] << 2) + len(name)


def running_interpreters(root: str = "/proc") -> list[Path]:
    """Return the programs and libraries of PHP that processes run now, each once: php-fpm, php, and Apache's module.

    They must belong to root or to the current user: any user may call a program `php`.
    """
    found: dict[tuple[int, int], Path] = {}
    for process in names(root):
        if not process.isdigit():
            continue
        with contextlib.suppress(OSError):
            files = mapped_files(f"{root}/{process}", MAPS_BYTES)
            for path in sorted(file for file in files if _PROGRAM.fullmatch(file.rpartition("/")[2])):
                status = _status(f"{root}/{process}", path)
                if status.st_uid not in (0, os.geteuid()):
                    continue
                # The path as this process sees it, also if the other process has another root.
                seen = Path(f"{root}/{process}/root{path}")
                plain = Path(path)
                with contextlib.suppress(OSError):
                    if os.path.samestat(plain.stat(), status):
                        seen = plain
                found.setdefault((status.st_dev, status.st_ino), seen)
    return sorted(found.values())


def _status(process: str, path: str) -> os.stat_result:
    descriptor = opened(process, path, os.geteuid())
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
