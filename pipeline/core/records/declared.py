"""Declarations of public records. Their fields define the JSON that is written and read, and its JSON Schema.

    @dataclass(frozen=True, slots=True)
    class Blame(Part):
        \"\"\"The probable culprit.\"\"\"

        row: Annotated[str, text("The row's id.")]
        value: Annotated[float, number("Of the counter, in its base unit.")] = math.nan

A field has the same name as the member of the JSON object. Members are written in the order of the fields, after
`kind`. The docstring describes the object. A module that declares records must not import `annotations` from
`__future__`, as the annotations are evaluated.

NaN and infinity, which JSON does not have, are written as null; null is read as NaN.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, get_args

from laggard.pipeline.core.records.fields import Fields
from laggard.pipeline.core.records.frame import KeyedBy
from laggard.pipeline.core.records.limits import MAX_PLAIN_BYTES, MAX_SEQUENCE
from laggard.pipeline.core.records.strict_json import json_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = 1
"""The major version of all schemas. It grows when a reader of the older form would misread the newer one."""

KEY_NAMES: Final[tuple[KeyedBy, ...]] = get_args(KeyedBy)
"""The possible names of the member that holds a key."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The form of a member of an object.

    Attributes:
        schema: its JSON Schema.
        read: reads the member by its name. Raises `RecordError`.
        write: makes it a JSON value; None if it is one.
        part: the shape that the schema refers to.
        added: whether older writers of the same major version omit it.
        sparse: whether it is written only if it is not the default.
        inline: whether the members of `part` replace this one.

    """

    schema: Schema
    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any] | None = None
    part: Shape[Any] | None = None
    added: bool = False
    sparse: bool = False
    inline: bool = False


class Shape(Generic[R]):
    """The shape of an object.

    Parameters:
        name: its name in schemas.
        description: its description in schemas.
        make: makes the record from the fields of the object, for errors, and its attributes by name.
        forms: the form of each attribute. `keyed_by` stands for itself and `key`.
        defaults: values of attributes that may be absent.

    """

    def __init__(
        self,
        name: str,
        description: str,
        make: Callable[..., R],
        forms: Mapping[str, Form],
        defaults: Mapping[str, Any],
    ) -> None:
        self.name = name
        self._description = description
        self._make = make
        self._forms = forms
        self._defaults = {each: defaults[each] for each, form in forms.items() if form.added or form.sparse}
        # Each with whether it is a plain member: these must be fast, as one answer has thousands of records.
        self._writes = [
            (name, form.write, not (form is KEYED or form.inline or form.sparse)) for name, form in forms.items()
        ]
        self._reads = [
            (name, form.read, form is not KEYED and name not in self._defaults) for name, form in forms.items()
        ]

    def write(self, record: R) -> dict[str, Any]:
        """Return the JSON object."""
        written: dict[str, Any] = {}
        for name, write, usual in self._writes:
            value = getattr(record, name)
            if usual:
                written[name] = value if write is None else write(value)
            elif self._forms[name] is KEYED:
                written[value] = record.key  # type: ignore[attr-defined]
            elif self._forms[name].inline and write is not None:
                written |= write(value)
            elif value != self._defaults[name]:
                written[name] = value if write is None else write(value)
        return written

    def read(self, found: Fields) -> R:
        """Return the record. Unknown members are ignored. Raises `RecordError`."""
        read: dict[str, Any] = {}
        for name, take, usual in self._reads:
            if usual:
                read[name] = take(found, name)
            elif name not in self._defaults:  # no member itself: the member has the name of the kind of key
                read[name], read["key"] = found.keyed(KEY_NAMES)
            else:
                read[name] = take(found, name) if name in found else self._defaults[name]
        return self._make(found, **read)

    def schema(self) -> Schema:
        """Return its JSON Schema, without the parts that it refers to."""
        required: list[str] = []
        properties: Schema = {}
        for name, form in self._forms.items():
            if form.inline:
                required += form.schema["required"]
                properties |= form.schema["properties"]
            elif form is not KEYED:
                required += [name] * (name not in self._defaults)
                properties[name] = form.schema
        schema: Schema = {
            "type": "object", "description": self._description, "required": required, "properties": properties,
        }  # fmt: skip
        if KEYED in self._forms.values():
            schema["properties"] |= {
                each: key(f"The {each} that it is about. The record's key.").schema for each in KEY_NAMES
            }
            schema["oneOf"] = [{"required": [each]} for each in KEY_NAMES]
        return schema

    def document(self) -> Schema:
        """Return the JSON Schema of a kind of record, with all its parts."""
        schema = self.schema()
        found = {
            "$schema": DIALECT,
            "$id": schema_id(self.name),
            "title": self.name,
            **schema,
            "required": ["kind", *schema["required"]],
            "properties": {"kind": {"const": self.name}, **schema["properties"]},
        }
        parts = self.parts()
        return found | {"$defs": parts} if parts else found

    def parts(self) -> dict[str, Schema]:
        """Return the schemas of all parts that it refers to, by their names."""
        found: dict[str, Schema] = {}
        for form in self._forms.values():
            if form.part is not None:
                found |= form.part.parts() | ({} if form.inline else {form.part.name: form.part.schema()})
        return found


def schema_id(kind: str) -> str:
    """Return the id of the schema of a kind: `urn:laggard:anomaly:1`."""
    return f"urn:laggard:{kind}:{VERSION}"


# The forms of members. The first argument is the description. Other members of the schema are passed by name.


def text(
    description: str, longest: int = MAX_PLAIN_BYTES, shortest: int = 0, *, added: bool = False, sparse: bool = False,
    **schema: Any,
) -> Form:  # fmt: skip
    """Return the form of a text."""
    least = {"minLength": shortest} if shortest else {}
    schema = {"type": "string", "description": description, **least, **schema}
    return Form(schema, lambda found, name: found.text(name, longest, shortest=shortest), added=added, sparse=sparse)


def uuid(description: str, *, added: bool = False) -> Form:
    """Return the form of an id."""
    return text(description, format="uuid", added=added)


def key(description: str) -> Form:
    """Return the form of a key: the name of a host, application, pool or service."""
    schema = {"type": "string", "description": description, "minLength": 1}
    return Form(schema, Fields.key)


KEYED: Final = Form({}, lambda _, __: None)
"""The form of `keyed_by`, for records with several kinds of keys. The attribute `key` holds the key."""


def texts(description: str, most: int, longest: int, *, added: bool = False) -> Form:
    """Return the form of texts."""
    schema = {"type": "array", "description": description, "items": {"type": "string"}}
    return Form(schema, lambda found, name: found.texts(name, most, longest), list, added=added)


def choice(description: str, literal: Any, *, added: bool = False) -> Form:
    """Return the form of one of the texts of a `Literal`."""
    choices = get_args(literal)
    schema = {"type": "string", "description": description, "enum": list(choices)}
    return Form(schema, lambda found, name: found.choice(name, choices), added=added)


def flag(description: str, *, added: bool = False) -> Form:
    """Return the form of true or false."""
    return Form({"type": "boolean", "description": description}, Fields.boolean, bool, added=added)


def count(description: str, least: int = 0, most: int = MAX_SEQUENCE, *, added: bool = False, **schema: Any) -> Form:
    """Return the form of an integer."""
    schema = {"type": "integer", "minimum": least, "description": description, **schema}
    return Form(schema, lambda found, name: found.integer(name, least, most), added=added)


def time(description: str, *, added: bool = False) -> Form:
    """Return the form of a time in seconds since the Unix epoch."""
    schema = {"type": "number", "description": description, "minimum": 0}
    return Form(schema, Fields.ts, json_number, added=added)


def number(description: str, *, added: bool = False, **schema: Any) -> Form:
    """Return the form of a number; NaN if unknown."""
    schema = {"type": ["number", "null"], "description": description, **schema}
    return Form(schema, Fields.number, json_number, added=added)


def amount(description: str, *, added: bool = False) -> Form:
    """Return the form of a finite number of at least 0."""
    schema = {"type": "number", "description": description, "minimum": 0}
    return Form(schema, Fields.amount, json_number, added=added)


def amounts(description: str, *, added: bool = False) -> Form:
    """Return the form of finite numbers of at least 0 by state."""
    schema = {
        "type": "object",
        "description": description,
        "additionalProperties": {"type": "number", "minimum": 0},
    }
    return Form(schema, Fields.amounts, dict, added=added)


def many(part: Shape[Any], description: str, *, added: bool = False, sparse: bool = False, **schema: Any) -> Form:
    """Return the form of objects of one shape."""
    schema = {"type": "array", "description": description, **schema, "items": reference(part)}
    return Form(
        schema,
        lambda found, name: tuple(map(part.read, found.objects(name))),
        lambda records: list(map(part.write, records)),
        part,
        added=added,
        sparse=sparse,
    )


def perhaps(part: Shape[Any], description: str, *, added: bool = False) -> Form:
    """Return the form of an object, or of None."""

    def read(found: Fields, name: str) -> Any:
        inner = found.perhaps_object(name)
        return None if inner is None else part.read(inner)

    schema = {"description": description, "anyOf": [reference(part), {"type": "null"}]}
    return Form(schema, read, lambda record: None if record is None else part.write(record), part, added=added)


def inline(part: Shape[Any]) -> Form:
    """Return the form of an object whose members become members of its owner."""
    return Form(part.schema(), lambda found, _: part.read(found), part.write, part, inline=True)


def reference(part: Shape[Any]) -> Schema:
    """Return the schema that refers to that of a part."""
    return {"$ref": f"#/$defs/{part.name}"}


# Records.


class Part:
    """A part of records whose fields are declared."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return shape_of(type(self)).write(self)

    @classmethod
    def read(cls, found: Fields) -> Self:
        """Return the record of these fields. Unknown members are ignored. Raises `RecordError`."""
        return shape_of(cls).read(found)

    @classmethod
    def made(cls, found: Fields, **read: Any) -> Self:  # noqa: ARG003 - others check more
        """Return the record with these attributes."""
        return cls(**read)


class Declared(Part):
    """A record whose fields are declared.

    Attributes:
        kind: the member `kind` of the object.

    """

    __slots__ = ()
    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"kind": self.kind, **shape_of(type(self)).write(self)}


P = TypeVar("P", bound=Part)


def shape_of(kind: type[P]) -> Shape[P]:
    """Return the shape of a declared record or part."""
    if kind not in _SHAPES:
        _SHAPES[kind] = _shape_of(kind)
    return _SHAPES[kind]


_SHAPES: Final[dict[type[Part], Shape[Any]]] = {}


def _shape_of(kind: type[P]) -> Shape[P]:
    forms = {}
    for each in fields(kind):  # type: ignore[arg-type]
        annotations = (inspect.get_annotations(base) for base in kind.__mro__)
        annotation = next(found[each.name] for found in annotations if each.name in found)
        if (form := next(iter(getattr(annotation, "__metadata__", ())), None)) is not None:
            forms[each.name] = form
    name = kind.kind if issubclass(kind, Declared) else kind.__name__.removesuffix("Output").lower()
    return Shape(name, " ".join((inspect.getdoc(kind) or "").split()), kind.made, forms, _defaults(kind))


def shape(name: str, description: str, make: Callable[..., R], /, **forms: Form) -> Shape[R]:
    """Return the shape of a record that is declared elsewhere: a result of an operator, for example."""
    return Shape(name, description, lambda _, **read: make(**read), forms, _defaults(make))


def _defaults(kind: Any) -> Mapping[str, Any]:
    if hasattr(kind, "_field_defaults"):  # a named tuple
        return dict(kind._field_defaults)
    return {each.name: each.default for each in fields(kind) if each.default is not MISSING}
