"""The documentation that comes with the connector: pages of Markdown, in an installation and in a checkout.

The connector has no web site, so its image contains them: `destination-deeplake --docs troubleshooting`.
"""

import sysconfig
from pathlib import Path

_FIRST = "airbyte"
_INSTALLED = Path("share/doc/destination-deeplake")


def folder() -> Path | None:
    """Return the folder of the pages; None if this installation lacks them."""
    places = (Path(sysconfig.get_path("data")) / _INSTALLED, Path(__file__).parents[1] / "docs")
    return next((place for place in places if (place / f"{_FIRST}.md").is_file()), None)


def pages() -> dict[str, Path]:
    """Return the pages by name: `airbyte`, `htypes/image`, ..."""
    root = folder()
    if root is None:
        return {}
    found = [*root.glob("*.md"), *root.glob("htypes/*.md")]
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(found)}


def contents() -> str:
    """Return the names of all pages with their titles."""
    names = pages()
    if not names:
        return "This installation has no pages.\n"
    width = max(map(len, names))
    lines = (f"{name:<{width}}  {_title(path)}\n" for name, path in names.items())
    return "Pages, to be read with `destination-deeplake --docs PAGE`:\n\n" + "".join(lines)


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), path.stem)
