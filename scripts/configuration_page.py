"""Write the reference part of docs/configuration.md from the connector's spec.json.

    python scripts/configuration_page.py          writes it
    python scripts/configuration_page.py --check  exit status 1 if it is not up to date

What stands outside of the two markers is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "destination_deeplake" / "spec.json"
PAGE = ROOT / "docs" / "configuration.md"
BEGIN, END = "<!-- written from spec.json by scripts/configuration_page.py: -->", "<!-- :end -->"

Schema = dict[str, Any]


def page(written: str, spec: Schema) -> str:
    """Return the page with its reference part written anew."""
    head, _, rest = written.partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = "\n".join(reference(spec["connectionSpecification"]))
    return f"{head}{BEGIN}\n\n{lines}\n{END}{tail}"


def reference(form: Schema) -> Iterator[str]:
    """Yield the lines of the reference: a section for each group of the form, then what lies inside its fields."""
    properties: Schema = form["properties"]
    for group in form["groups"]:
        yield f"### {group['title']}"
        yield ""
        yield from table({k: v for k, v in properties.items() if v["group"] == group["id"]}, form["required"])
        for name, field in properties.items():
            if field["group"] == group["id"]:
                yield from inside(name, field)


def inside(name: str, field: Schema) -> Iterator[str]:
    """Yield the sections for the choices of a field, or the fields of its entries."""
    for option in field.get("oneOf", ()):
        method = option["properties"]["method"]["const"]
        fields = {key: value for key, value in option["properties"].items() if key != "method"}
        yield f"#### {option['title']}: `{method}`"
        yield ""
        yield option["description"]
        yield ""
        if fields:
            yield from table(fields, option["required"])
    items = field.get("items", {})
    if items.get("type") == "object":
        yield f"#### Entries of `{name}`"
        yield ""
        yield from table(items["properties"], items["required"])
        for inner, entry in items["properties"].items():
            yield from inside(f"{name}[].{inner}", entry)


def table(fields: Schema, required: list[str]) -> Iterator[str]:
    """Yield a table of fields, in the order of the form."""
    yield "| field | name | |"
    yield "|---|---|---|"
    for name, field in sorted(fields.items(), key=lambda entry: entry[1]["order"]):
        yield f"| {field['title']} | `{name}` | {' '.join(described(field, is_required=name in required))} |"
    yield ""


def described(field: Schema, *, is_required: bool) -> Iterator[str]:
    """Yield sentences about a field."""
    yield re.sub(r"([|*_])", r"\\\1", field["description"])
    if is_required:
        yield "**Required.**"
    if field.get("airbyte_secret"):
        yield "*Secret.*"
    if "enum" in field:
        yield f"One of {', '.join(f'`{value}`' for value in field['enum'])}."
    if "default" in field:
        yield f"Default: `{json.dumps(field['default']).strip(chr(34))}`."
    if field.get("examples") and "enum" not in field:
        shown = [value if isinstance(value, str) else json.dumps(value) for value in field["examples"]]
        yield f"Example: {', '.join(f'`{value}`' for value in shown)}."


def main(arguments: list[str]) -> int:
    """Do what the command line says."""
    written = PAGE.read_text(encoding="utf-8")
    wanted = page(written, json.loads(SPEC.read_bytes()))
    if arguments == ["--check"]:
        return int(written != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
