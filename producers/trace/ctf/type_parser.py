"""The parser of types in TSDL, the language in which CTF 1.8 describes the events of a trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from laggard.producers.trace.ctf.tokens import Tokens
from laggard.producers.trace.ctf.types import Array, Enumeration, Float, Integer, Struct, Text, Type, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEEPEST: Final = 64


class TypeParser(Tokens):
    """A recursive-descent parser of types, which it knows from then on, and of blocks of attributes.

    Attributes:
        little: whether the byte order of integers is little-endian by default.

    """

    def __init__(self, text: str, place: object) -> None:
        super().__init__(text, place)
        self.little = True
        self._depth = 0
        self._types: dict[str, Type] = {}

    def attributes(self) -> tuple[dict[str, str], dict[str, Type]]:
        """Parse a block in braces: `name = value;` and `name := type;`. Aliases in it are added."""
        values: dict[str, str] = {}
        types: dict[str, Type] = {}
        self.expect("{")
        while not self.takes("}"):
            if self.peek() in ("typealias", "typedef"):
                self.alias()
                continue
            name = self.next()[1] + "".join(self.until("=", ":=", ";"))
            if self.takes(":="):
                types[name] = self.type()
            elif self.takes("="):
                values[name] = self._value()
            self.expect(";")
        return values, types

    def _value(self) -> str:
        parts = []
        while self.peek() not in (";", ""):
            kind, text = self.next()
            parts.append(_unquoted(text) if kind == "text" else text)
        return "".join(parts)

    def alias(self) -> None:
        """Parse and add another name of a type."""
        if self.next()[1] == "typedef":
            kind = self.type()
            name, kind = self._declarator(kind)
            self._types[name] = kind
        else:
            kind = self.type()
            self.expect(":=")
            self._types[" ".join(self.until(";"))] = kind
        self.expect(";")

    def type(self) -> Type:
        """Parse a type."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.wrong_here(f"expected types nested at most {_DEEPEST} deep")
        kind, word = self.next()
        if kind != "word":
            self.at -= 1
            raise self.wrong_here(f"expected a type, got {word!r}")
        match word:
            case "integer":
                found: Type = self._integer()
            case "floating_point":
                values, _ = self.attributes()
                size = self.number(values.get("exp_dig", "8")) + self.number(values.get("mant_dig", "24"))
                found = Float(size, self._align(values), self._is_little(values))
            case "string":
                if self.peek() == "{":
                    self.attributes()
                found = Text()
            case "struct":
                found = self._struct()
            case "variant":
                found = self._variant()
            case "enum":
                found = self._enumeration()
            case _:
                found = self._named(word)
        self._depth -= 1
        return found

    def _named(self, word: str) -> Type:
        """Parse the name of a type, of one or several words (`unsigned long`); the longest known name is used."""
        words, found, end = [word], self._types.get(word), self.at
        while self.rest and self.tokens[self.at][0] == "word":
            words.append(self.next()[1])
            longer = self._types.get(" ".join(words))
            if longer is not None:
                found, end = longer, self.at
        self.at = end
        if found is None:
            raise self.wrong_here(f"expected a declared type, got {' '.join(words)!r}")
        return found

    def _align(self, values: dict[str, str]) -> int:
        align = self.number(values.get("align", "1"))
        if align < 1 or align & (align - 1):
            raise self.wrong_here(f"expected an alignment that is a power of two, got {align}")
        return align

    def _is_little(self, values: dict[str, str]) -> bool:
        order = values.get("byte_order", "native")
        return self.little if order == "native" else order == "le"

    def _integer(self) -> Integer:
        values, _ = self.attributes()
        size = self.number(values.get("size", "0"))
        if not 1 <= size <= 64:
            raise self.wrong_here(f"expected an integer of 1 to 64 bits, got {size}")
        return Integer(
            size,
            self._align(values) if "align" in values else (8 if size % 8 == 0 else 1),
            values.get("signed", "false").lower() in ("true", "1"),
            self._is_little(values),
            values["map"].split(".")[1] if values.get("map", "").startswith("clock.") else "",
            values.get("encoding", "none").lower() in ("utf8", "ascii"),
        )

    def _struct(self) -> Struct:
        name = self.next()[1] if self.peek() != "{" else ""
        if self.peek() != "{":
            kind = self._types.get(f"struct {name}")
            if not isinstance(kind, Struct):
                raise self.wrong_here(f"expected a declared struct, got {name!r}")
            return kind
        fields = self._fields()
        minimum = 1
        if self.takes("align"):
            self.expect("(")
            minimum = self._align({"align": self.next()[1]})
            self.expect(")")
        struct_type = Struct(tuple(fields), minimum)
        if name:
            self._types[f"struct {name}"] = struct_type
        return struct_type

    def _fields(self) -> list[tuple[str, Type]]:
        fields = []
        self.expect("{")
        while not self.takes("}"):
            if self.peek() in ("typealias", "typedef"):
                self.alias()
                continue
            kind = self.type()
            name, kind = self._declarator(kind)
            fields.append((_plain(name), kind))
            self.expect(";")
        return fields

    def _declarator(self, kind: Type) -> tuple[str, Type]:
        name = self.next()[1]
        lengths: list[int | str] = []
        while self.takes("["):
            parts = self.until("]")
            self.expect("]")
            # A path such as `stream.event.context.n` is looked up by its last part.
            lengths.append(
                self.number(parts[0]) if parts and parts[0][0].isdigit() else _plain(parts[-1] if parts else "")
            )
        for length in reversed(lengths):
            kind = Array(kind, length)
        return name, kind

    def _variant(self) -> Variant:
        name = self.next()[1] if self.peek() not in ("<", "{") else ""
        tag = ""
        if self.takes("<"):
            tag = "".join(self.until(">")[-1:])
            self.expect(">")
        if self.peek() != "{":
            kind = self._types.get(f"variant {name}")
            if not isinstance(kind, Variant):
                raise self.wrong_here(f"expected a declared variant, got {name!r}")
            return Variant(_plain(tag) or kind.tag, kind.options)
        variant = Variant(_plain(tag), dict(self._fields()))
        if name:
            self._types[f"variant {name}"] = variant
        return variant

    def _enumeration(self) -> Enumeration:
        name = self.next()[1] if self.peek() not in (":", "{") else ""
        container: Type = self._types.get("int", Integer(32, 8, signed=True, little=self.little))
        if self.takes(":"):
            container = self.type()
        if self.peek() != "{":
            kind = self._types.get(f"enum {name}")
            if not isinstance(kind, Enumeration):
                raise self.wrong_here(f"expected a declared enumeration, got {name!r}")
            return kind
        if not isinstance(container, Integer):
            raise self.wrong_here("expected an integer type for an enumeration")
        found = Enumeration(container, tuple(self._labels()))
        if name:
            self._types[f"enum {name}"] = found
        return found

    def _labels(self) -> Sequence[tuple[int, int, str]]:
        labels, following = [], 0
        self.expect("{")
        while not self.takes("}"):
            kind, label = self.next()
            first = last = following
            if self.takes("="):
                first = last = self.signed()
                if self.takes("..."):
                    last = self.signed()
            following = last + 1
            labels.append((first, last, _plain(_unquoted(label) if kind == "text" else label)))
            self.takes(",")
        return labels


def _plain(name: str) -> str:
    """Return a field's name without the underscore that tracers put before all of them."""
    return name.removeprefix("_")


def _unquoted(text: str) -> str:
    """Return a quoted text without its quotes; escaped characters stand for themselves."""
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
