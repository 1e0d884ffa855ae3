"""Requests that programs report themselves."""

from __future__ import annotations

import pytest

from laggard.producers.trace.boundaries.markers import Mark, parse_marker
from laggard.producers.trace.events import Kind


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("laggard begin 17 shop\tGET /cart", Mark(Kind.BEGIN, 17, "shop\tGET /cart")),
        ("laggard begin 17 shop\tGET /cart/12?x=1\n", Mark(Kind.BEGIN, 17, "shop\tGET /cart/*")),
        ("laggard begin 0 shop", Mark(Kind.BEGIN, 0, "shop\t")),
        ("laggard begin 1", Mark(Kind.BEGIN, 1, "\t")),
        ("laggard begin 1 \tGET /", Mark(Kind.BEGIN, 1, "\tGET /")),
        ("laggard end 17", Mark(Kind.END, 17, "")),
        ("laggard end 17\n", Mark(Kind.END, 17, "")),
        *((text, None) for text in ("", "hello", "laggard", "laggard begin", "laggard begin x shop\tGET /")),
        *((text, None) for text in ("laggard begin -1", "laggard end", "xlaggard end 1")),
        ("laggard begin 99999999999999999999 a\tb", None),
    ],
)
def test_which_texts_are_marks(text: str, mark: Mark | None) -> None:
    assert parse_marker(text) == mark
