"""The texts of the project are in plain English: the prose linter finds no errors in them, and finds those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prose import linting, texts
from tests.prose.__main__ import reading_ease

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time, Vale may have to be built
@pytest.mark.parametrize("kind", linting.KINDS)
def test_texts_have_no_errors(kind: str) -> None:
    assert [str(each) for each in linting.lint(kind, "error")] == []


PROGRAM = '''
"""Return what was analysed.

Parameters:
    one: the dead-letters
        of a topic.

Example:
    it will_not_be_read(or, "found")
"""
LIMIT = 3
"""We don't know."""  # see e.g. above

def test_it_will_end(one, two):
    # It simply works!
    # And so so it goes, for 5ms.
    raise ValueError(f"the {one} will be out of line, " "please {two!r}", "SELECT this will FROM it")
'''


@pytest.mark.slow
def test_errors_are_found_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linting, "ROOT", tmp_path)
    monkeypatch.setattr(linting, "_files", lambda _: [tmp_path / "operators/test_it.py"])
    (tmp_path / "operators").mkdir()
    (tmp_path / "operators/test_it.py").write_text(PROGRAM)
    found = {kind: sorted((each.line, each.rule) for each in linting.lint(kind, "error")) for kind in linting.KINDS[1:]}
    assert found == {
        "comments": [
            *[(2, "American"), (5, "Terms"), (12, "Contractions"), (12, "FirstPerson"), (12, "Latin")],
            *[(15, "Easy"), (15, "Punctuation"), (16, "Repetition"), (16, "Units")],
        ],
        "messages": [(17, "Easy"), (17, "Future"), (17, "Words")],
        "names": [(14, "Future")],
    }


def test_texts_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(PROGRAM)
    comments, messages, names = (read(path).splitlines() for read in (texts.comments, texts.messages, texts.names))
    assert [comments[number - 1] for number in (2, 4, 5, 6, 9, 12)] == [
        *["- Return what was analysed.", "", "- the dead-letters", "  of a topic.", ""],
        "- We don't know.  see e.g. above",
    ]
    assert comments[14:16] == ["- It simply works!", "  And so so it goes, for 5ms."]
    assert messages[16] == "- the `x` will be out of line, please `x`"
    assert names[13] == "- it will end"


def test_short_words_are_easy_to_read() -> None:
    assert reading_ease({"words": 100, "sentences": 10, "syllables": 130}) == pytest.approx(86.7, abs=0.1)
    assert reading_ease({"words": 100, "sentences": 3, "syllables": 200}) < 10
