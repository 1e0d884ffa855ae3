"""Selectors of series as PromQL writes them: `http_requests_total{code=~"5..", handler!="/health"}`.

Reference: https://prometheus.io/docs/prometheus/latest/querying/basics/#instant-vector-selectors
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAME: Final = "__name__"

_METRIC: Final = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)?\s*(\{.*\})?\s*", re.ASCII | re.DOTALL)
_MATCHER: Final = re.compile(
    r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*(,|$)""",
    re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}

_EXPECTED: Final = 'a selector such as http_requests_total{code=~"5..",handler!="/health"}'


class Matcher(NamedTuple):
    """What a label has to be: `operator` is one of `=`, `!=`, `=~` and `!~`. A label that is not there is empty."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Which series are meant.

    Regular expressions are anchored at both ends, as Prometheus's are. They are Python's, and Prometheus's are RE2's:
    what both know means the same in both.

    Attributes:
        name: of the metric; empty where only labels decide.
        matchers: of its labels, all of which have to be met.

    """

    name: str = ""
    matchers: tuple[Matcher, ...] = ()
    _patterns: tuple[re.Pattern[str] | None, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Selector:
        """The selector that is written so. Raises `ValueError` saying what was expected."""
        found = _METRIC.fullmatch(text)
        if not found or not (found[1] or found[2]):
            raise ValueError(_EXPECTED)
        matchers: list[Matcher] = []
        inner = (found[2] or "{}")[1:-1].strip()
        while inner:
            matcher = _MATCHER.match(inner)
            if not matcher:
                raise ValueError(_EXPECTED)
            matchers.append(Matcher(matcher[1], matcher[2], _unquoted(matcher[3])))
            inner = inner[matcher.end() :].strip()
        if found[1] and any(each.label == NAME for each in matchers):
            raise ValueError(f"{_EXPECTED}, with the name of the metric once")
        if not found[1] and not any(_refuses_empty(each) for each in matchers):
            raise ValueError(f"{_EXPECTED}, that leaves out series without labels")
        return cls(found[1] or "", tuple(matchers), tuple(map(_pattern, matchers)))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a series is meant. The name is only looked at where the selector says one."""
        if self.name and name != self.name:
            return False
        return all(
            _met(each, name if each.label == NAME else labels.get(each.label, ""), pattern)
            for each, pattern in zip(self.matchers, self._patterns, strict=True)
        )

    def labels_match(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels are those that are meant, whatever the name."""
        return all(
            _met(each, labels.get(each.label, ""), pattern)
            for each, pattern in zip(self.matchers, self._patterns, strict=True)
            if each.label != NAME
        )

    def query(self, names: Iterable[str] = ()) -> str:
        """The selector in PromQL; of these names instead of its own, where some are given."""
        told = [f"{each.label}{each.operator}{json.dumps(each.value, ensure_ascii=False)}" for each in self.matchers]
        if names := tuple(names):
            told = [f"{NAME}=~{json.dumps('|'.join(names))}", *(each for each in told if not each.startswith(NAME))]
            return "{" + ",".join(told) + "}"
        return self.name + ("{" + ",".join(told) + "}" if told else "")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "`":
        return inner

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise ValueError(f"{_EXPECTED}; no escape \\{match[1]}: a backslash of a regular expression is \\\\")
        return _ESCAPED[match[1]]

    return _ESCAPE.sub(replaced, inner)


def _pattern(matcher: Matcher) -> re.Pattern[str] | None:
    if matcher.operator not in {"=~", "!~"}:
        return None
    try:
        return re.compile(matcher.value, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{_EXPECTED}; {matcher.value!r} is no regular expression: {error}") from None


def _met(matcher: Matcher, value: str, pattern: re.Pattern[str] | None) -> bool:
    same = value == matcher.value if pattern is None else pattern.fullmatch(value) is not None
    return same == (matcher.operator in {"=", "=~"})


def _refuses_empty(matcher: Matcher) -> bool:
    return not _met(matcher, "", _pattern(matcher))
