"""A river object as plain data and back: its attributes and, in turn, theirs. Pickle is never used.

The graph of objects becomes a table. Similar objects form a group with one column per attribute, so that the 5,000
nodes of some trees are a few arrays. Objects are made only of the parts of an example. Classes and functions are found
among these parts and not in modules, so that a manipulated table cannot call anything else.

A column is one of `{"f": floats}`, `{"i": integers}`, `{"r": places in the table}` as arrays, or `{"v": [...]}`, in
which a list of one number is a place in the table.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

SCALARS: Final = (type(None), bool, int, float, str)
MAPPINGS: Final = {each.__name__: each for each in (dict, OrderedDict, Counter, defaultdict)}
SEQUENCES: Final = {each.__name__: each for each in (list, tuple, set, frozenset)}
INTEGERS: Final = (-(1 << 63), (1 << 63) - 1)


_Taken = tuple[str, Any, tuple[Any, ...] | None, list[tuple[Any, Any]]]
"""The kind; the common head of its group; the common keys, None if the number of values varies; keys and values."""


class NotPlainError(ValueError):
    """An object that cannot become plain data; the message names it and its path."""


class Parts:
    """The parts of an example: the classes and functions that may be in a table.

    Parameters:
        example: an object that has learned enough to have every kind of part.

    Raises:
        NotPlainError: it cannot be represented.

    """

    def __init__(self, example: object) -> None:
        self._known: dict[str, Any] = {}
        self._open = True
        self.table(example)
        self._open = False

    def table(self, root: object) -> dict[str, Any]:
        """Return an object as plain data: a copy. Raises `NotPlainError`."""
        taking = _Taking(self)
        place = taking.value(root, type(root).__name__)
        return {"root": place, "kinds": taking.run()}

    def object_of(self, table: dict[str, Any]) -> Any:
        """Return the object of a table. Raises `ValueError` if the table is not one of such an object."""
        try:
            return _Making(self, table["kinds"]).value(table["root"])
        except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"expected the state of such a detector: {type(error).__name__}: {error}") from None

    def name(self, known: Any, path: str) -> str:
        """Return the name of a class or function in tables."""
        name = f"{known.__module__}.{known.__qualname__}"
        if self._open and "<" not in name:
            self._known[name] = known
        if self._known.get(name) is not known:
            raise NotPlainError(f"{path}: expected a part that was there from the start, got {name}")
        return name

    def known(self, name: str) -> Any:
        """Return the class or function with this name."""
        if name not in self._known:
            raise ValueError(f"expected a part that such a detector has, got {name!r}")
        return self._known[name]


def generators(root: object) -> list[Any]:
    """Return the random number generators in an object, each once."""
    taking = _Taking(Parts(root))
    taking.value(root, type(root).__name__)
    taking.run()
    return [each for each in taking.kept if _is_generator(each)]


class _Taking:
    """Takes an object apart, level by level: without recursion, since trees may be deep."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._places: dict[int, int] = {}
        self.kept: list[object] = []  # objects with a place must live, or others may get their identities
        self._waiting: deque[tuple[Any, str]] = deque()
        self._kinds: dict[tuple[Any, ...], dict[str, Any]] = {}

    def value(self, value: Any, path: str) -> Any:
        """Return the value for a column: itself, or its place."""
        if isinstance(value, np.generic):
            value = value.item()
        if type(value) in SCALARS:
            if type(value) is int and not INTEGERS[0] <= value <= INTEGERS[1]:
                raise NotPlainError(f"{path}: expected an integer of 64 bits, got {value.bit_length()} bits")
            return value
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.kept)
            self.kept.append(value)
            self._waiting.append((value, path))
        return [place]

    def run(self) -> list[dict[str, Any]]:
        """Return the table: all objects that `value` was called with and their parts, by kind."""
        while self._waiting:
            each, path = self._waiting.popleft()
            kind, head, keys, values = self._take(each, path)
            group = self._kinds.setdefault(
                (kind, head if type(head) in SCALARS else repr(head), keys),
                {"kind": kind, "head": head, "keys": None if keys is None else [key for _, key in keys], "at": []},
            )
            group["at"].append(self._places[id(each)])
            group.setdefault("columns", []).append([self.value(value, f"{path}.{at}") for at, value in values])
        return [self._written(group) for group in self._kinds.values()]

    def _take(self, each: Any, path: str) -> _Taken:  # noqa: PLR0911 - one for each kind of part
        """Take one object apart, but not its values."""
        match each:
            case dict() if type(each) in MAPPINGS.values():
                for key in each:
                    if type(key) not in SCALARS:
                        raise NotPlainError(f"{path}: expected keys that are plain, got {type(key).__name__}")
                factory = self.value(each.default_factory, path) if isinstance(each, defaultdict) else None
                # 1, 1.0 and True are equal keys of different types.
                keys = tuple((type(key).__name__, key) for key in each)
                return "mapping", [type(each).__name__, factory], keys, list(each.items())
            case deque():
                return "deque", each.maxlen, None, list(enumerate(each))
            case list() | tuple() | set() | frozenset() if type(each) in SEQUENCES.values():
                # The order of a set depends on the hashes of texts, which differ between processes.
                items = sorted(each, key=repr) if isinstance(each, set | frozenset) else each
                return "sequence", type(each).__name__, None, list(enumerate(items))
            case np.ndarray():
                return "array", None, None, [("dtype", each.dtype.str), ("shape", each.shape), ("of", each.tolist())]
            case type() | FunctionType() | BuiltinFunctionType() if _is_global(each):
                return "name", self._parts.name(each, path), (), []
            case MethodType():
                return "method", each.__name__, ((None, "of"),), [("of", each.__self__)]
            case partial():
                return "partial", None, None, [("of", each.func), ("args", each.args), ("keywords", each.keywords)]
        return self._take_object(each, path)

    def _take_object(self, each: Any, path: str) -> _Taken:
        cls: Any = type(each)
        name = self._parts.name(cls, path)
        if _is_generator(each):
            return "generator", name, ((None, "state"),), [("state", each.getstate())]
        # The meaning of a state from an own `__getstate__` is unknown.
        try:
            reduced: Any = each.__reduce_ex__(2) if cls.__getstate__ is object.__getstate__ else None
        except TypeError:  # Python itself cannot copy it
            reduced = None
        match reduced:
            # An object that consists of its class and its attributes, by which Python itself would copy it.
            case (made_by, (made_of,), state, None, None) if made_by.__name__ == "__newobj__" and made_of is cls:
                plain, slots = state if isinstance(state, tuple) else (state, None)
                attributes = {**(plain or {}), **(slots or {})}
                keys = tuple((None, key) for key in attributes)
                return "object", name, keys, list(attributes.items())
            # An object that its class makes from arguments.
            case (made_by, tuple() as arguments) if made_by is cls:
                return "call", name, None, list(enumerate(arguments))
        raise NotPlainError(f"{path}: {name} keeps its state where it cannot be read")

    @staticmethod
    def _written(group: dict[str, Any]) -> dict[str, Any]:
        rows = group.pop("columns")
        group["at"] = np.array(group["at"], dtype=np.int64)
        if group["keys"] is None:
            group["lengths"] = np.array([len(row) for row in rows], dtype=np.int64)
            group["columns"] = [_column([value for row in rows for value in row])]
        else:
            group["columns"] = [_column(list(column)) for column in zip(*rows, strict=True)]
        return group


class _Making:
    """Makes the objects of a table, each when it is needed."""

    def __init__(self, parts: Parts, kinds: list[dict[str, Any]]) -> None:
        self._parts = parts
        self._rows: dict[int, tuple[dict[str, Any], list[Any]]] = {}
        self._made: dict[int, Any] = {}
        for group in kinds:
            columns = [_values(column) for column in group["columns"]]
            if group["keys"] is None:
                ends = np.cumsum(group["lengths"]).tolist()
                rows = [columns[0][begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
            else:
                rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in group["at"]]
            for place, row in zip(np.asarray(group["at"]).tolist(), rows, strict=True):
                self._rows[place] = (group, row)

    def value(self, value: Any) -> Any:
        """Return a value of a column in its original form."""
        if not isinstance(value, list | tuple):
            return value
        (place,) = value
        if place not in self._made:
            self._made[place] = self._make(place, *self._rows[place])
        return self._made[place]

    def _make(self, place: int, group: dict[str, Any], row: list[Any]) -> Any:  # noqa: C901, PLR0912 - likewise
        head = group["head"]
        match group["kind"]:
            case "mapping":
                cls = MAPPINGS[head[0]]
                result: Any = defaultdict(self.value(head[1])) if cls is defaultdict else cls()
                self._made[place] = result
                for key, value in zip(group["keys"], row, strict=True):
                    result[key] = self.value(value)
            case "deque":
                result = self._made[place] = deque(maxlen=head)
                result.extend(map(self.value, row))
            case "sequence" if head == "list":
                result = self._made[place] = []
                result.extend(map(self.value, row))
            case "sequence":
                result = SEQUENCES[head](map(self.value, row))
            case "array":
                dtype, shape, of = map(self.value, row)
                result = np.array(of, dtype=np.dtype(dtype)).reshape(shape)
            case "name":
                result = self._parts.known(head)
            case "method":
                result = getattr(self.value(row[0]), head)
            case "partial":
                func, args, keywords = map(self.value, row)
                result = partial(func, *args, **keywords)
            case "generator":
                result = self._parts.known(head)()
                result.setstate(self.value(row[0]))
            case "call":
                result = self._parts.known(head)(*map(self.value, row))
            case "object":
                cls = self._parts.known(head)
                result = self._made[place] = cls.__new__(cls)
                for key, value in zip(group["keys"], row, strict=True):
                    object.__setattr__(result, key, self.value(value))
            case kind:
                raise ValueError(f"expected a kind of part, got {kind!r}")
        return result


def _is_generator(each: Any) -> bool:
    return callable(getattr(each, "getstate", None)) and callable(getattr(each, "setstate", None))


def _is_global(each: Any) -> bool:
    """Return whether it is a class or function of a module, and not bound to an object."""
    owner = getattr(each, "__self__", None)
    return owner is None or isinstance(each, type) or type(owner).__name__ == "module"


def _column(values: list[Any]) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    if kinds == {float}:
        return {"f": np.array(values, dtype=np.float64)}
    if kinds == {int}:
        return {"i": np.array(values, dtype=np.int64)}
    if kinds == {list}:
        return {"r": np.array([place for (place,) in values], dtype=np.int64)}
    return {"v": values}


def _values(column: dict[str, Any]) -> list[Any]:
    ((kind, values),) = column.items()
    if kind == "r":
        return [[place] for place in np.asarray(values).tolist()]
    return list(values) if kind == "v" else list(np.asarray(values).tolist())
