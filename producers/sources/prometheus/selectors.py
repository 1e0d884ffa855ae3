"""Selectors of series in PromQL: `http_requests_total{code=~"5..", handler!="/health"}`.

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
    """A condition on a label: `operator` is one of `=`, `!=`, `=~` and `!~`. A missing label is empty."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """A selection of series.

    Regular expressions are anchored at both ends, as in Prometheus. They are Python's, and those of Prometheus are
    RE2's: syntax that both have means the same.

    Attributes:
        name: the name of the metric; empty if only labels decide.
        matchers: conditions on its labels, all of which must hold.

    """

    name: str = ""
    matchers: tuple[Matcher, ...] = ()
    _patterns: tuple[re.Pattern[str] | None, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a selector. Raises `ValueError` that says what was expected."""
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
            raise ValueError(f"{_EXPECTED}, one that excludes series without labels")
        return cls(found[1] or "", tuple(matchers), tuple(map(_pattern, matchers)))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a series is selected. The name only counts if the selector has one."""
        if self.name and name != self.name:
            return False
        return all(
            _met(each, name if each.label == NAME else labels.get(each.label, ""), pattern)
            for each, pattern in zip(self.matchers, self._patterns, strict=True)
        )

    def labels_match(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels are selected, whatever the name."""
        return all(
            _met(each, labels.get(each.label, ""), pattern)
            for each, pattern in zip(self.matchers, self._patterns, strict=True)
            if each.label != NAME
        )

    def query(self, names: Iterable[str] = ()) -> str:
        """Return the selector in PromQL, with these names instead of its own if some are given."""
        terms = [f"{each.label}{each.operator}{json.dumps(each.value, ensure_ascii=False)}" for each in self.matchers]
        if names := tuple(names):
            terms = [f"{NAME}=~{json.dumps('|'.join(names))}", *(each for each in terms if not each.startswith(NAME))]
            return "{" + ",".join(terms) + "}"
        return self.name + ("{" + ",".join(terms) + "}" if terms else "")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "`":
        return inner

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise ValueError(f"{_EXPECTED}; unknown escape \\{match[1]}: write \\\\ for a backslash")
        return _ESCAPED[match[1]]

    return _ESCAPE.sub(replaced, inner)


def _pattern(matcher: Matcher) -> re.Pattern[str] | None:
    if matcher.operator not in {"=~", "!~"}:
        return None
    try:
        return re.compile(matcher.value, re.DOTALL)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{_EXPECTED}; {matcher.value!r} is not a regular expression: {error}") from None


def _met(matcher: Matcher, value: str, pattern: re.Pattern[str] | None) -> bool:
    same = value == matcher.value if pattern is None else pattern.fullmatch(value) is not None
    return same == (matcher.operator in {"=", "=~"})


def _refuses_empty(matcher: Matcher) -> bool:
    return not _met(matcher, "", _pattern(matcher))
