"""The types of types.ts, read from it, and whether an answer has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[3] / "format" / "lakebed" / "viewer" / "web" / "src" / "types.ts"
_WORD = re.compile(r"[A-Za-z_]\w*|\"[^\"]*\"|[{}\[\]()|;:,?=<>]")


class Types:
    """Interfaces and types by name; each is a tree of tuples."""

    def __init__(self) -> None:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", SOURCE.read_text(), flags=re.DOTALL)
        self._words: list[str] = [*_WORD.findall(text), ""]
        self._at = 0
        self.named: dict[str, Any] = {}
        while self._words[self._at]:
            self._expect("export")
            kind, name = self._take(), self._take()
            if kind == "interface":
                self.named[name] = self._fields()
            else:
                self._expect("=")
                self.named[name] = self._union()
                self._expect(";")

    def _take(self) -> str:
        self._at += 1
        return self._words[self._at - 1]

    def _expect(self, word: str) -> None:
        found = self._take()
        assert found == word, f"types.ts: {found!r} where {word!r} was expected"

    def _is(self, word: str) -> bool:
        if self._words[self._at] != word:
            return False
        self._at += 1
        return True

    def _union(self) -> Any:
        self._is("|")
        choices = [self._list()]
        while self._is("|"):
            choices.append(self._list())
        return ("union", choices) if len(choices) > 1 else choices[0]

    def _list(self) -> Any:
        found = self._single()
        while self._words[self._at : self._at + 2] == ["[", "]"]:
            self._at += 2
            found = ("list", found)
        return found

    def _single(self) -> Any:
        if self._words[self._at] == "{":
            return self._fields()
        if self._is("("):
            found = self._union()
            self._expect(")")
            return found
        if self._is("["):
            items = [self._union()]
            while self._is(","):
                items.append(self._union())
            self._expect("]")
            return ("tuple", items)
        return ("name", self._take())

    def _fields(self) -> Any:
        self._expect("{")
        fields: dict[str, tuple[Any, bool]] = {}
        while not self._is("}"):
            if self._is("["):
                self._take()
                self._expect(":")
                self._take()
                self._expect("]")
                self._expect(":")
                found = ("map", self._union())
                self._is(";")
                self._expect("}")
                return found
            name = self._take()
            is_optional = self._is("?")
            self._expect(":")
            fields[name] = (self._union(), is_optional)
            _ = self._is(";") or self._is(",")
        return ("fields", fields)

    def faults(self, value: Any, name: str) -> list[str]:
        """Return what in a value is not as the type of this name has it."""
        return list(self._faults(value, self.named[name], name))

    def _faults(self, value: Any, type_: Any, where: str) -> Iterator[str]:
        kind, of = type_
        if kind == "union":
            found = [list(self._faults(value, one, where)) for one in of]
            if all(found):
                yield min(found, key=len)[0]
        elif kind == "list":
            if not isinstance(value, list):
                yield f"{where}: {value!r:.60} is no list"
            else:
                for at, item in enumerate(value):
                    yield from self._faults(item, of, f"{where}[{at}]")
        elif kind == "tuple":
            if not isinstance(value, list) or len(value) != len(of):
                yield f"{where}: {value!r:.60} are not {len(of)}"
            else:
                for item, one in zip(value, of, strict=True):
                    yield from self._faults(item, one, where)
        elif kind == "map":
            if not isinstance(value, dict):
                yield f"{where}: {value!r:.60} is no object"
            else:
                for key, item in value.items():
                    yield from self._faults(item, of, f"{where}.{key}")
        elif kind == "fields":
            yield from self._faults_of_fields(value, of, where)
        else:
            yield from self._faults_of_name(value, of, where)

    def _faults_of_fields(self, value: Any, fields: Any, where: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{where}: {value!r:.60} is no object"
            return
        for key in value.keys() - fields.keys():
            yield f"{where}.{key}: is not in types.ts"
        for key, (one, is_optional) in fields.items():
            if key in value:
                yield from self._faults(value[key], one, f"{where}.{key}")
            elif not is_optional:
                yield f"{where}.{key}: is missing"

    def _faults_of_name(self, value: Any, name: str, where: str) -> Iterator[str]:
        plain = {"string": str, "boolean": bool, "null": type(None)}
        if name.startswith('"'):
            is_right = value == name[1:-1]
        elif name == "number":
            is_right = isinstance(value, int | float) and not isinstance(value, bool)
        elif name == "true":
            is_right = value is True
        elif name in plain:
            is_right = isinstance(value, plain[name])
        elif name == "Json":
            is_right = True
        else:
            yield from self._faults(value, self.named[name], where)
            return
        if not is_right:
            yield f"{where}: {value!r:.60} is no {name}"
