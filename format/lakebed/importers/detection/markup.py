"""XML that may be hostile: a document that declares a type or entities is refused before any of it is used."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, suppress
from typing import Any
from xml.etree.ElementTree import Element
from xml.parsers import expat

from lakebed.errors import IngestionError
from lakebed.importers.core.packages import damaged
from lakebed.importers.detection.objects import plain_number

_MOST_DEPTH = 64
"""Maximum depth of elements; annotations are a few elements deep."""
_DECLARED = re.compile(rb"""<\?xml[^>]*\bencoding=["']([\w.:-]+)""")


def new_parser(name: str, encoding: str | None = None) -> expat.XMLParserType:
    """Return a parser that refuses declarations of types and entities.

    Parameters
    ----------
    name
        Name of the document, for messages.
    encoding
        Encoding that the document around a fragment declares.
    """
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True

    def refuse(*_: Any) -> int:
        raise IngestionError(f"{name} declares a document type or entities, which annotations do not need")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    return parser


def parse_xml(data: bytes, name: str, encoding: str | None = None) -> Element:
    """Return the root of a document.

    Parameters
    ----------
    data
        The document, or one element of it.
    name, encoding
        As for :func:`new_parser`.

    Raises
    ------
    IngestionError
        If the document is not XML, nests too deeply, or declares a type or entities.
    """
    parser = new_parser(name, encoding)
    root: list[Element] = []
    open_elements: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) >= _MOST_DEPTH:
            raise IngestionError(f"{name} nests elements more than {_MOST_DEPTH} deep")
        made = Element(tag, attributes)
        if open_elements:
            open_elements[-1].append(made)
        else:
            root.append(made)
        open_elements.append(made)

    def text(found: str) -> None:
        last = open_elements[-1]
        if not len(last):
            last.text = (last.text or "") + found

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.CharacterDataHandler = text
    data = data.lstrip()  # some programs write an empty line before the XML declaration
    try:
        with parsing(name):
            parser.Parse(data, True)
    except IngestionError as error:
        declared = _DECLARED.match(data)
        # The parser does not support encodings such as GB2312: decode the document before parsing.
        if "multi-byte" in str(error) and declared is not None and encoding is None:
            with suppress(UnicodeDecodeError):
                return parse_xml(data.decode(declared[1].decode()).encode(), name, "utf-8")
        raise
    return root[0]


def parsing(name: str) -> AbstractContextManager[None]:
    """Return a context that converts the errors of a parser to errors of lakebed."""
    return damaged(f"{name} is not XML", expat.ExpatError, ValueError, LookupError)


def plain(element: Element) -> Any:
    """Return an element as JSON: text, a number, or an object of its attributes and children."""
    if not len(element) and not element.attrib:
        return plain_number((element.text or "").strip())
    found: dict[str, Any] = {key: plain_number(value) for key, value in element.attrib.items()}
    for child in element:
        value = plain(child)
        if child.tag not in found:
            found[child.tag] = value
        elif isinstance(found[child.tag], list):
            found[child.tag].append(value)
        else:
            found[child.tag] = [found[child.tag], value]
    text = (element.text or "").strip()
    if text:
        found["text"] = plain_number(text)
    return found
