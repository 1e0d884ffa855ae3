"""Hides secrets in command lines, addresses and names before anything is recorded.

The arguments of a process are visible to others, and records of laggard go to a bus, a page and alerts. So each text
from a process, a client or a traced program goes through `redact`, which replaces these by `***`:

- the value of a name that means a secret (`NAMES`): `--db-password=X`, `--token X`, `AWS_SECRET_ACCESS_KEY=X`,
  `"password": "X"`, `?access_token=X`, `Authorization: Basic X`, `IDENTIFIED BY 'X'`;
- the secret behind a one-letter option of some programs (`PROGRAMS`): `mysql -pX`, `curl -u X`, `sshpass -p X`;
- the password in an address: `postgres://shop:X@db/shop`;
- secrets with a known shape: Bearer tokens, JSON web tokens, private keys in PEM, and keys of well-known services.

A text is cut before the search, and each pattern visits each character a bounded number of times. A secret that stands
alone, without a sign of what it is, is not found.
"""

from __future__ import annotations

import re
import string
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "***"
"""The replacement of a secret."""

LONGEST: Final = 4096
"""The most characters of a text that are searched; the rest is dropped."""

NAMES: Final = (
    *("password", "passwords", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "psk", "secret", "secrets"),
    *("token", "credential", "credentials", "auth", "authorization", "cookie", "api_key", "access_key", "account_key"),
    *("auth_key", "encryption_key", "master_key", "private_key", "secret_key", "shared_key", "signing_key"),
    *("key_pass", "store_pass", "require_pass", "master_auth", "signature", "sig", "identified_by"),
)
"""Names of secrets, also at the end of longer names, in any case; `_` may be `-`, `.`, a blank or nothing.

Those of up to `_SHORT` letters match only as a word of their own: `db_pass`, `dbPass` and `--pass`, but not `--bypass`.
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
"""Programs, the letters of their options for a secret, and what may stand between letter and secret."""

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

# A text that was cut may end before the `@`. Digits before a path, a blank or the end are a port.
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
# For `curl`, letters of other options may stand before, as in `-sSu`, and there is a long form.
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
    """Hides secrets as `redact` does, with more names.

    Args:
        more: names in addition to `NAMES`, in the same form.

    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        words = [[part for part in re.split(r"[-_. ]+", name.translate(_CASES)) if part] for name in (*NAMES, *more)]
        words = [parts for parts in words if parts]
        # The longest part of each name: searching for these is cheap, and most texts have none.
        hints = sorted({max(parts, key=len) for parts in words}, key=len)
        self._hints = tuple(
            each for number, each in enumerate(hints) if not any(other in each for other in hints[:number])
        )
        names = "|".join("[-_. ]?".join(map(re.escape, parts)) for parts in words)
        # A name, then the separator of its value: a sign, the end of an argument, or blanks.
        self._names = re.compile(
            rf"(?P<name>{names})[0-9]{{0,3}}"
            rf"(?:(?P<given>\\?[\"']?[ \t]{{0,4}}(?::=|=>|[=:]|%3d)[ \t]{{0,4}})|(?P<apart>\0|[ \t]{{1,4}}))"
        )

    def redact(self, text: str) -> str:
        """Return the text with `***` in the place of each secret. NULs between arguments stay."""
        # It has the same length as the text, whatever its letters are.
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


def _value(text: str, match: re.Match[str]) -> re.Match[str] | None:
    """Return the value of a name that was found; None if it has none."""
    name, start, end = match["name"], match.start(), match.end()
    before = text[max(0, start - _LONGEST_NAME) : start]
    prefix = len(before) - len(before.rstrip(_NAME_CHARACTERS))
    apart = not before[-1:].isalnum() or (before[-1].islower() and text[start].isupper())
    if len(name) <= _SHORT and not apart:
        return None
    begin = start - prefix
    if match["given"] is None:
        if not text.startswith("-", begin):
            return _QUOTED.match(text, end)
        # Before the next option, this one has no value, or prompts for it.
        by = _ARGUMENT if match["apart"] == "\0" else _WORD
        return None if text.startswith("--", end) else by.match(text, end)
    around = text[begin - 1] if begin else ""
    if around == "\0" or (around and around in "?&#"):
        return (_ARGUMENT if around == "\0" else _PARAMETER).match(text, end)
    by = _HEADER if name in _HEADERS else _WORD
    return _QUOTED.match(text, end) or _ESCAPED.match(text, end) or by.match(text, end)


def _hide_options(text: str) -> str:
    """Hide the secrets behind one-letter options of programs, each up to the next such program."""
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
    """Set for this process whether secrets are hidden, and names of secrets in addition to `NAMES`."""
    global _more  # noqa: PLW0603 - a setting of the process
    _more = tuple(more) if enabled else None


def redact(text: str) -> str:
    """Return the text, cut to `LONGEST` characters, with `***` in the place of secrets; unchanged if hiding is off."""
    return text if _more is None else _redactor(_more).redact(text[:LONGEST])


@cache
def _redactor(more: tuple[str, ...]) -> Redactor:
    # Compiled for the first text: that takes some milliseconds.
    return Redactor(more)
