"""Secrets in command lines, addresses and names, hidden before anything is recorded.

Whoever looks at a process sees its arguments, and what laggard records goes to a bus, a page and alerts. So each text
that a process, a client or a traced program gave goes through `redact`, which puts `***` in the place of

- the value of a name that says secret (`NAMES`): `--db-password=X`, `--token X`, `AWS_SECRET_ACCESS_KEY=X`,
  `"password": "X"`, `?access_token=X`, `Authorization: Basic X`, `IDENTIFIED BY 'X'`;
- what some programs take as a secret behind one letter (`PROGRAMS`): `mysql -pX`, `curl -u X`, `sshpass -p X`;
- the password in an address: `postgres://shop:X@db/shop`;
- what is a secret by its shape: Bearer tokens, JSON web tokens, private keys in PEM, and keys of well-known services.

A text is cut before it is searched, and each pattern looks at each character a bounded number of times. A secret that
stands alone, with nothing that says so, is not found.
"""

from __future__ import annotations

import re
import string
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "***"
"""What stands in the place of a secret."""

LONGEST: Final = 4096
"""Characters of a text that are looked at; what is behind them is dropped."""

NAMES: Final = (
    *("password", "passwords", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "psk", "secret", "secrets"),
    *("token", "credential", "credentials", "auth", "authorization", "cookie", "api_key", "access_key", "account_key"),
    *("auth_key", "encryption_key", "master_key", "private_key", "secret_key", "shared_key", "signing_key"),
    *("key_pass", "store_pass", "require_pass", "master_auth", "signature", "sig", "identified_by"),
)
"""Names that say secret, and those that end with one of them, in any case; `_` may be `-`, `.`, a blank or nothing.

Those of up to `_SHORT` letters only as a word of their own: `db_pass`, `dbPass` and `--pass`, but not `--bypass`.
"""

_APART: Final = r"[ =\0]?"

PROGRAMS: Final = (
    (
        "mysql|mysqladmin|mysqldump|mysqlcheck|mysqlimport|mysqlshow|mariadb|mariadb-admin|mariadb-dump|7z|7za|7zr",
        "p",
        "",
    ),
    ("sshpass|mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport", "p", _APART),
    ("curl", "uU", _APART),
    ("redis-cli", "a", _APART),
    ("ldapsearch|ldapadd|ldapmodify|ldapdelete|ldappasswd|ldapwhoami", "w", _APART),
    ("sqlcmd|bcp|zip|unzip", "P", _APART),
    ("smbclient|rpcclient", "U", _APART),
)
"""Programs, the letters behind which they take a secret, and what may stand between."""

_SHORT: Final = 4
_NAME_CHARACTERS: Final = string.ascii_letters + string.digits + "_.-"
_LONGEST_NAME: Final = 128
_HEADERS: Final = {"authorization", "cookie"}  # of HTTP, whose values have blanks
_CASES: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

# Patterns for values. A NUL ends an argument, as in /proc/PID/cmdline; each character fits one alternative only.
_ARGUMENT: Final = re.compile(r"[^\0]*")
_HEADER: Final = re.compile(r"[^\"'\0\r\n]*")
_PARAMETER: Final = re.compile(r"[^&#\s\"'<>\0]*")
_QUOTED: Final = re.compile(r"\"(?:[^\"\\\0]|\\[^\0])*\"(?=[,;:}\])\s\0]|$)|'(?:[^'\\\0]|\\[^\0])*'(?=[,;:}\])\s\0]|$)")
_ESCAPED: Final = re.compile(r"\\[\"'][^\"'\\\0]*")
_WORD: Final = re.compile(r"(?:\\[^\0]|\"(?:[^\"\\\0]|\\[^\0])*\"?|'[^'\0]*'?|[^\s\\\0\"'])*")

# A text that was cut may end before the `@`; where digits end, they are a port.
_ADDRESS: Final = re.compile(
    r"(://[^\s/?#:@\[\"'\0]{0,128}:)(?![0-9]{1,5}(?:[/?#\s\0]|\Z))"
    r"(?:[^\s\"'<>\0]{1,256}(?=@)|[^\s\"'<>\0]{1,256}\Z)"
)
_BEARER: Final = re.compile(r"(\bbearer(?:[ \0]|%20){1,4})[\w.~+/=-]{8,}", re.ASCII | re.IGNORECASE)
_QUERY: Final = re.compile(r"([?&#;](?:key|code|jwt|sid)=)[^&#\s\"'<>\0]+", re.IGNORECASE)
_KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"A[KS]IA[0-9A-Z]{16}"  # Amazon
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}"  # Google
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}"  # Slack
    r"|[prs]k[-_](?=[\w-]{0,40}[0-9])[\w-]{20,}"  # Stripe, and services of models
    r"|hv[brs]\.[\w-]{16,}"  # Vault
    r"|npm_\w{30,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{16,}|dop_v1_\w{20,}|SG\.[\w-]{16,}(?:\.[\w-]*)?"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}"  # a JSON web token
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^\0]*"
    r")",
    re.ASCII,
)
_KEY_HINTS: Final = (
    *("AKIA", "ASIA", "AIza", "ya29.", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "pk-"),
    *("pk_", "rk-", "rk_", "sk-", "sk_", "hvs.", "hvb.", "hvr.", "npm_", "pypi-", "dckr_", "dop_v1_", "SG.", "eyJ"),
    *("PRIVATE KEY",),
)
_PROGRAM: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(f'({names})' for names, _, _ in PROGRAMS)})(?=[\s\0])", re.ASCII)
# Of `curl` letters of other options may stand before, as in `-sSu`, and there is a long form.
_OPTIONS: Final = tuple(
    re.compile(
        r"(?<=[\s\0])"
        + (f"(?:-[fgikLNnSsv]{{0,6}}[{letters}]|--(?:proxy-)?user(?=[ =\0]))" if "u" in letters else f"-[{letters}]")
        + apart
    )
    for _, letters, apart in PROGRAMS
)
_PROGRAM_HINTS: Final = (
    *("mysql", "mariadb", "7z", "sshpass", "mongo", "curl", "redis-cli", "ldap", "sqlcmd", "bcp", "zip", "smbclient"),
    "rpcclient",
)


class Redactor:
    """Hides what `redact` does, and more names.

    Args:
        more: names beside `NAMES`, written like those.

    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        words = [[part for part in re.split(r"[-_. ]+", name.translate(_CASES)) if part] for name in (*NAMES, *more)]
        words = [parts for parts in words if parts]
        # What each name has in it: to look for these is cheap, and most texts have none.
        hints = sorted({max(parts, key=len) for parts in words}, key=len)
        self._hints = tuple(
            each for number, each in enumerate(hints) if not any(other in each for other in hints[:number])
        )
        names = "|".join("[-_. ]?".join(map(re.escape, parts)) for parts in words)
        # A name, then what gives it a value: a sign, the end of an argument, or blanks.
        self._names = re.compile(
            rf"(?P<name>{names})[0-9]{{0,3}}"
            rf"(?:(?P<given>\\?[\"']?[ \t]{{0,4}}(?::=|=>|[=:]|%3d)[ \t]{{0,4}})|(?P<apart>\0|[ \t]{{1,4}}))"
        )

    def redact(self, text: str) -> str:
        """The text with `***` in the place of each secret; its arguments may have NULs between them, which stay."""
        # As long as the text, whatever its letters are.
        low = text.lower() if text.isascii() else text.translate(_CASES)
        if any(hint in low for hint in self._hints):
            text = self._hide_named(text, low)
        if any(hint in text for hint in _PROGRAM_HINTS):
            text = _hide_options(text)
        if "://" in text:
            text = _ADDRESS.sub(rf"\1{HIDDEN}", text)
        if "bearer" in low:
            text = _BEARER.sub(rf"\1{HIDDEN}", text)
        if "=" in text and ("?" in text or "&" in text):
            text = _QUERY.sub(rf"\1{HIDDEN}", text)
        if any(hint in text for hint in _KEY_HINTS):
            text = _KEYS.sub(HIDDEN, text)
        return text

    def _hide_named(self, text: str, low: str) -> str:
        parts, done, at = [], 0, 0
        while found := self._names.search(low, at):
            at = found.end()
            value = _value(text, found)
            if value is not None and value.end() > value.start():
                parts += [text[done : value.start()], HIDDEN]
                done = at = value.end()
        parts.append(text[done:])
        return "".join(parts)


def _value(text: str, found: re.Match[str]) -> re.Match[str] | None:
    """The value that is given to a name that was found; None where it is none."""
    name, start, end = found["name"], found.start(), found.end()
    before = text[max(0, start - _LONGEST_NAME) : start]
    prefix = len(before) - len(before.rstrip(_NAME_CHARACTERS))
    apart = not before[-1:].isalnum() or (before[-1].islower() and text[start].isupper())
    if len(name) <= _SHORT and not apart:
        return None
    begin = start - prefix
    if found["given"] is None:
        if not text.startswith("-", begin):
            return _QUOTED.match(text, end)
        # Where the next option comes, this one has no value, or asks for it.
        by = _ARGUMENT if found["apart"] == "\0" else _WORD
        return None if text.startswith("--", end) else by.match(text, end)
    around = text[begin - 1] if begin else ""
    if around == "\0" or (around and around in "?&#"):
        return (_ARGUMENT if around == "\0" else _PARAMETER).match(text, end)
    by = _HEADER if name in _HEADERS else _WORD
    return _QUOTED.match(text, end) or _ESCAPED.match(text, end) or by.match(text, end)


def _hide_options(text: str) -> str:
    """Hide what programs take behind one letter, up to the next such program."""
    found = list(_PROGRAM.finditer(text))
    if not found:
        return text
    parts = [text[: found[0].end()]]
    for each, following in zip(found, [*found[1:], None], strict=True):
        assert each.lastindex is not None
        rest = text[each.end() : following.end() if following else None]
        parts.append(_hide_option(rest, _OPTIONS[each.lastindex - 1]))
    return "".join(parts)


def _hide_option(text: str, option: re.Pattern[str]) -> str:
    parts, done = [], 0
    pattern = _ARGUMENT if "\0" in text else _WORD
    while found := option.search(text, done):
        value = pattern.match(text, found.end())
        assert value is not None
        parts += [text[done : value.start()], HIDDEN if value[0] else ""]
        done = value.end()
    parts.append(text[done:])
    return "".join(parts)


_more: tuple[str, ...] | None = ()


def configure(*, enabled: bool = True, more: Sequence[str] = ()) -> None:
    """Say for this process whether secrets are hidden, and which names say secret beside `NAMES`."""
    global _more  # noqa: PLW0603 - as the settings are: of the process
    _more = tuple(more) if enabled else None


def redact(text: str) -> str:
    """The text with `***` in the place of secrets, cut to `LONGEST` characters before; see above for what is hidden."""
    return text if _more is None else _redactor(_more).redact(text[:LONGEST])


@cache
def _redactor(more: tuple[str, ...]) -> Redactor:
    # Not before there is a text: to compile the patterns takes some milliseconds.
    return Redactor(more)
