"""Selectors: what PromQL means by them, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.prometheus.selectors import Matcher, Selector

LABELS = {"code": "503", "handler": "/pay"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("requests_total", True),
        ("others_total", False),
        (" requests_total { } ", True),
        ('requests_total{code="503"}', True),
        ('requests_total{code="50"}', False),
        ('requests_total{code=~"50"}', False),
        ('requests_total{code=~"5..", handler!="/health",}', True),
        ("requests_total{code=~'5..'}", True),
        ("requests_total{code=~`5\\d+`}", True),
        ('requests_total{code=~"5\\\\d+"}', True),
        ('requests_total{code!~"5.."}', False),
        ('requests_total{pod=""}', True),
        ('requests_total{pod!=""}', False),
        ('{__name__=~"requests_.*",code="503"}', True),
        ('{handler="/pay"}', True),
        ('{handler="a,b}\\""}', False),
    ],
)
def test_what_is_meant(text: str, matches: bool) -> None:
    assert Selector.parse(text).matches("requests_total", LABELS) is matches


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "a b", "5xx", "a{", "a{b}", "a{b=c}", 'a{b="c"', 'a{b="c" d="e"}', 'a{b=="c"}', 'a{,b="c"}'),
        *('a{b=~"("}', 'a{b="\\d"}', 'a{__name__="b"}', "rate(a[5m])", 'a{b="c"}[5m]', '{b!="c"}', '{b=~".*"}'),
    ],
)
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a selector such as "):
        Selector.parse(text)


def test_as_a_query() -> None:
    selector = Selector.parse('requests_total{code=~"5..",handler!="/\\"x"}')
    assert selector.query() == 'requests_total{code=~"5..",handler!="/\\"x"}'
    assert selector.query(("a", "b")) == '{__name__=~"a|b",code=~"5..",handler!="/\\"x"}'
    assert Selector.parse('{__name__=~"x.*",job="node"}').query(("a",)) == '{__name__=~"a",job="node"}'
    assert Selector.parse("up").query() == "up"


@given(
    st.from_regex(r"[A-Za-z_:][A-Za-z0-9_:]{0,8}", fullmatch=True),
    st.lists(
        st.builds(
            Matcher,
            st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(lambda label: label != "__name__"),
            st.sampled_from(["=", "!="]),
            st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
        ),
        max_size=4,
    ),
)
def test_what_is_written_is_read_as_it_was(name: str, matchers: list[Matcher]) -> None:
    selector = Selector(name, tuple(matchers))
    assert Selector.parse(selector.query()) == selector
