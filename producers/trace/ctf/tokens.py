"""The tokens of TSDL, the language in which CTF 1.8 describes the events of a trace."""

from __future__ import annotations

import re
from typing import Final

from laggard.producers.trace.errors import TraceError

_TOKEN: Final = re.compile(
    r"""\s+ | /\*.*?\*/ | //[^\n]*
    | (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>:=|\.\.\.|[{}\[\]()<>;:,=.*+-])""",
    re.VERBOSE | re.DOTALL,
)


class Tokens:
    """The tokens of a text, and a place among them.

    Args:
        text: the text.
        place: what it comes from, for errors.

    Attributes:
        at: the number of the next token.
        tokens: of each token the kind, the text, and its place in the whole text.

    Raises:
        TraceError: the text has something that is not a token.

    """

    def __init__(self, text: str, place: object) -> None:
        self.place = place
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong(at, f"expected a word of TSDL, got {text[at : at + 20]!a}")
            if match.lastgroup is not None:
                self.tokens.append((match.lastgroup, match[match.lastgroup], at))
            at = match.end()

    @property
    def rest(self) -> bool:
        """Whether a token is left."""
        return self.at < len(self.tokens)

    def wrong(self, at: int, problem: str) -> TraceError:
        """Return the error of a place in the text, with its line."""
        return TraceError(f"{self.place}:{self.text.count(chr(10), 0, at) + 1}", problem)

    def peek(self, ahead: int = 0) -> str:
        """Return the text of a token to come; empty at the end."""
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def next(self) -> tuple[str, str]:
        """Take the next token: return its kind, `text`, `number`, `word` or `sign`, and its text."""
        if self.at >= len(self.tokens):
            raise self.wrong(len(self.text), "unexpected end of the metadata")
        kind, text, _ = self.tokens[self.at]
        self.at += 1
        return kind, text

    def expect(self, sign: str) -> None:
        """Take the next token, which must be this one."""
        place = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        got = self.next()[1]
        if got != sign:
            raise self.wrong(place, f"expected {sign!r}, got {got!r}")

    def takes(self, sign: str) -> bool:
        """Take the next token if it is this one, and return whether it was."""
        if self.peek() != sign:
            return False
        self.at += 1
        return True

    def wrong_here(self, problem: str) -> TraceError:
        """Return an error at the next token."""
        place = self.tokens[min(self.at, len(self.tokens) - 1)][2] if self.tokens else 0
        return self.wrong(place, problem)

    def until(self, *signs: str) -> list[str]:
        """Take the tokens before the next one of these, or before the end, and return their texts."""
        found: list[str] = []
        while self.rest and self.peek() not in signs:
            found.append(self.next()[1])
        return found

    def number(self, text: str) -> int:
        """Return the whole number in a text; an error names the place of the next token."""
        try:
            return int(text, 0)
        except ValueError:
            raise self.wrong_here(f"expected a whole number, got {text!r}") from None

    def signed(self) -> int:
        """Take a whole number with an optional sign."""
        sign = -1 if self.takes("-") else 1
        self.takes("+")
        return sign * self.number(self.next()[1])
