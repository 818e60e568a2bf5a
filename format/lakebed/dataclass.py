"""``dataclass`` as in the standard library, at a tenth of its price for a program that has just started.

The standard library compiles six methods for each class when the class is made: half a millisecond, and a program
that opens a dataset has made a hundred classes before its first read. Here ``__init__`` is compiled when a class turns
out to have many instances, and the other methods are compiled once for all classes. ``fields()``, ``asdict()`` and
``replace()`` of the standard library work; they find what they read once they look for it.

What a class may ask for is what this library uses: no ``order``, ``InitVar`` or ``KW_ONLY``. Type checkers see the
decorator of the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace

__all__ = ["dataclass", "field", "replace"]

T = TypeVar("T")
_FEW = 16
"""Instances after which ``__init__`` is compiled: it takes as long as filling forty without."""
_setattr = object.__setattr__


class _Plan:
    """What a class is made of, until its ``__init__`` is compiled and its fields are asked for."""

    __slots__ = ("cls", "few", "fields", "frozen", "has_slots")

    def __init__(self, fields: dict[str, Field[Any]], frozen: bool, has_slots: bool) -> None:
        self.cls: type = object  # until it is made
        self.fields = fields
        self.frozen = frozen
        self.has_slots = has_slots
        self.few = 0

    def fill(self, instance: Any, /, *args: Any, **given: Any) -> None:
        """Do for one of the first instances what ``__init__`` does for the others."""
        values = self._values(args, given)
        if values is None:
            self.init()(instance, *args, **given)  # it refuses them
            return
        put = _setattr if self.frozen else setattr
        for name in self.fields:
            if name in values:
                put(instance, name, values[name])
        if hasattr(self.cls, "__post_init__"):
            instance.__post_init__()

    def _values(self, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the value of each field that gets one; None if these are no arguments of the class."""
        ordered = [name for name, one in self.fields.items() if one.init and not one.kw_only]
        found = dict(zip(ordered, args, strict=False))
        if len(args) > len(ordered) or not found.keys().isdisjoint(given) or given.keys() - self.fields:
            return None
        found.update(given)
        for name, one in self.fields.items():
            if name in found:
                if not one.init:
                    return None
            elif one.default_factory is not MISSING:
                found[name] = one.default_factory()
            elif one.default is not MISSING:
                if one.init or self.has_slots:  # else the class has the value
                    found[name] = one.default
            elif one.init:
                return None
        return found

    def init(self) -> Callable[..., Any]:
        """Compile ``__init__``.

        A frozen class has no assignment, so its fields are set by the descriptors of their slots.
        """
        known: dict[str, Any] = {"_set": _setattr, "_absent": _Absent()}
        ordered: list[str] = []
        named: list[str] = []
        body: list[str] = []
        for name, one in self.fields.items():
            value = name
            parameter = name
            if one.default_factory is not MISSING:
                known[f"_make_{name}"] = one.default_factory
                parameter = f"{name}=_absent"
                value = f"_make_{name}() if {name} is _absent else {name}" if one.init else f"_make_{name}()"
            elif one.default is not MISSING:
                known[f"_default_{name}"] = one.default
                parameter = f"{name}=_default_{name}"
                if not one.init:
                    value = f"_default_{name}"
            if one.init:
                (named if one.kw_only else ordered).append(parameter)
            elif one.default_factory is MISSING and (one.default is MISSING or not self.has_slots):
                continue  # the class has the value, or nobody has
            if not self.frozen:
                body.append(f"self.{name} = {value}")
            elif isinstance(slot := getattr(self.cls, name, None), MemberDescriptorType):
                known[f"_set_{name}"] = slot.__set__
                body.append(f"_set_{name}(self, {value})")
            else:
                body.append(f"_set(self, {name!r}, {value})")
        if hasattr(self.cls, "__post_init__"):
            body.append("self.__post_init__()")
        parameters = ", ".join(["self", *ordered, *(["*", *named] if named else [])])
        made = self._compiled("__init__", parameters, body or ["pass"], known)
        made.__annotations__ = {
            **{name: one.type for name, one in self.fields.items() if one.init},
            "return": None,
        }
        return made

    def equal(self) -> Callable[..., Any]:
        """Compile ``__eq__``: of instances of one class, the fields that count."""
        names = [name for name, one in self.fields.items() if one.compare]
        body = [
            "if other.__class__ is self.__class__:",
            f" return {_tuple('self', names)} == {_tuple('other', names)}",
        ]
        return self._compiled("__eq__", "self, other", [*body, "return NotImplemented"], {})

    def hash(self) -> Callable[..., Any]:
        """Compile ``__hash__``."""
        hashed = [
            name for name, one in self.fields.items() if (one.compare if one.hash is None else one.hash)
        ]
        return self._compiled("__hash__", "self", [f"return hash({_tuple('self', hashed)})"], {})

    def _compiled(
        self, name: str, parameters: str, body: list[str], known: dict[str, Any]
    ) -> Callable[..., Any]:
        where = self.cls.__qualname__
        text = f"def {name}({parameters}):\n " + "\n ".join(body)
        exec(compile(text, f"<dataclass {where}>", "exec"), known)  # noqa: S102 - text made of names of fields
        made: Callable[..., Any] = known[name]
        made.__qualname__ = f"{where}.{name}"
        made.__module__ = self.cls.__module__
        return made

    def standard(self) -> type:
        """Return a class of the standard library with the same fields."""
        described = [(name, one.type, one) for name, one in self.fields.items()]
        return dataclasses.make_dataclass(
            self.cls.__name__, described, frozen=self.frozen, eq=False, repr=False
        )


class _Absent:
    """Stands for an argument whose default is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


class _Later:
    """A method that is compiled when it is first looked up, two threads may both do it; ``__init__`` somewhat later."""

    __slots__ = ("compiled", "name", "plan")

    def __init__(self, plan: _Plan, name: str, compiled: Callable[[], Callable[..., Any]]) -> None:
        self.plan = plan
        self.name = name
        self.compiled = compiled

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        if self.name == "__init__" and self.plan.few < _FEW and isinstance(instance, self.plan.cls):
            self.plan.few += 1
            return partial(self.plan.fill, instance)
        # From Python 3.13 on, inspect.signature binds __init__ to the class.
        made = self.compiled()
        setattr(self.plan.cls, self.name, made)
        return made if instance is None else MethodType(made, instance)


class _Standard:
    """What the functions of the standard library look for in a class; made when it is first looked up."""

    __slots__ = ("name", "plan")

    def __init__(self, plan: _Plan, name: str) -> None:
        self.plan = plan
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = getattr(self.plan.standard(), self.name)
        setattr(self.plan.cls, self.name, made)
        return made


def _made(
    cls: type,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - as in the standard library
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> type:
    """Return the class with the methods of a dataclass; with ``slots`` a new one of the same name."""
    own = vars(cls)
    fields = _inherited(cls)
    inherited = frozenset(fields)
    for name, annotation in cls.__annotations__.items():
        if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            fields[name] = _field(cls, name, annotation, own.get(name, MISSING), kw_only)
    if frozen and not own.keys().isdisjoint(("__setattr__", "__delattr__")):
        raise TypeError(f"{cls.__qualname__} is frozen and says itself how attributes are set")
    plan = _Plan(fields, frozen, slots)
    added = _methods(plan, init=init, repr=repr, eq=eq, own=own)
    if slots:
        plan.cls = _slotted(cls, {**own, **added}, fields, inherited, weakref_slot)
    else:
        plan.cls = cls
        for name in fields.keys() & own.keys():
            if fields[name].default is MISSING:
                delattr(cls, name)
            else:
                added[name] = fields[name].default
        for name, value in added.items():
            setattr(cls, name, value)
    return plan.cls


def _slotted(
    cls: type,
    namespace: dict[str, Any],
    fields: Mapping[str, Field[Any]],
    inherited: frozenset[str],
    weakref_slot: bool,
) -> type:
    """Return the class anew: slots can only be given to a class that is made."""
    if "__slots__" in namespace:
        raise TypeError(f"{cls.__qualname__} already has __slots__")
    for name in (*fields, "__dict__", "__weakref__"):
        namespace.pop(name, None)
    slots = [name for name in fields if name not in inherited]
    if weakref_slot and not hasattr(cls.__base__, "__weakref__"):
        slots.append("__weakref__")
    namespace["__slots__"] = tuple(slots)
    if namespace["_dataclass_plan"].frozen:
        namespace.setdefault("__getstate__", _state)
        namespace.setdefault("__setstate__", _set_state)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _inherited(cls: type) -> dict[str, Field[Any]]:
    """Fields of the bases, the farthest first."""
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        plan = vars(base).get("_dataclass_plan")
        if plan is not None:
            found.update(plan.fields)
        elif "__dataclass_fields__" in vars(base):
            raise TypeError(
                f"{cls.__qualname__}: its base {base.__qualname__} is of the other kind of dataclass"
            )
    return found


def _field(cls: type, name: str, annotation: Any, given: Any, kw_only: bool) -> Field[Any]:
    found: Field[Any]
    if isinstance(given, Field):
        found = given
    else:
        found = dataclasses.field() if given is MISSING else dataclasses.field(default=given)
    if found.default is not MISSING and type(found.default).__hash__ is None:
        raise ValueError(
            f"{cls.__qualname__}.{name}: all instances would share this default; use default_factory"
        )
    found.name = name
    found.type = annotation
    if found.kw_only is MISSING:
        found.kw_only = kw_only
    return found


def _methods(
    plan: _Plan,
    *,
    init: bool,
    repr: bool,  # noqa: A002 - as in the standard library
    eq: bool,
    own: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the class gets; what it has of its own stays, as in the standard library."""
    fields = plan.fields.values()
    found: dict[str, Any] = {
        "_dataclass_plan": plan,
        "__dataclass_fields__": _Standard(plan, "__dataclass_fields__"),
        "__dataclass_params__": _Standard(plan, "__dataclass_params__"),
    }
    if "__match_args__" not in own:
        found["__match_args__"] = tuple(one.name for one in fields if one.init and not one.kw_only)
    if init and "__init__" not in own:
        found["__init__"] = _Later(plan, "__init__", plan.init)
    if repr and "__repr__" not in own:
        found["__repr__"] = _shown
    if eq:
        if "__eq__" not in own:
            found["__eq__"] = _Later(plan, "__eq__", plan.equal)
        if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):
            found["__hash__"] = _Later(plan, "__hash__", plan.hash) if plan.frozen else None
    if plan.frozen:
        found["__setattr__"], found["__delattr__"] = _refusals(plan)
    if "__replace__" not in own:
        found["__replace__"] = _replace
    return found


def _tuple(of: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _refusals(plan: _Plan) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807 - becomes a method
        if type(self) is plan.cls or name in plan.fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        cls: Any = plan.cls
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - becomes a method
        if type(self) is plan.cls or name in plan.fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        cls: Any = plan.cls
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


@recursive_repr()
def _shown(self: Any) -> str:
    plan: _Plan = self._dataclass_plan
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name, one in plan.fields.items() if one.repr)
    return f"{self.__class__.__qualname__}({values})"


def _state(self: Any) -> list[Any]:
    """Return what a frozen class with slots is pickled as: its values, in the order of its fields."""
    plan: _Plan = self._dataclass_plan
    return [getattr(self, name) for name in plan.fields]


def _set_state(self: Any, state: list[Any]) -> None:
    plan: _Plan = self._dataclass_plan
    for name, value in zip(plan.fields, state, strict=True):
        _setattr(self, name, value)


def _replace(self: Any, /, **changes: Any) -> Any:
    """Return a copy with other values of some fields; those that ``__init__`` does not take are made anew."""
    plan: _Plan = self._dataclass_plan
    for name, one in plan.fields.items():
        if one.init and name not in changes:
            changes[name] = getattr(self, name)
    return self.__class__(**changes)


if not TYPE_CHECKING:
    field = dataclasses.field

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """Make a class a dataclass; see the module for what it may ask for."""
        if cls is None:
            return lambda cls: _made(cls, **options)
        return _made(cls, **options)

    def replace(value: T, /, **changes: Any) -> T:
        """Return a copy of a dataclass with other values of some fields."""
        plan = getattr(value, "_dataclass_plan", None)
        if plan is None or plan.cls is not type(value):
            return dataclasses.replace(value, **changes)
        return _replace(value, **changes)
