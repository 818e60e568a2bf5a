"""Images, label files, classes and splits of a YOLO source: ``data.yaml``, ``obj.data``, lists, folders.

Paths in these files often come from another machine. A path is looked up below the source: first as a whole, then
without its first part, and so on. No file outside of the source is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import IngestionError
from lakebed.importers.core.contents import decoded
from lakebed.importers.core.packages import damaged, module
from lakebed.importers.core.plan import Problem, as_json
from lakebed.importers.core.source import Source, stem_of, suffix_of
from lakebed.importers.detection.objects import IMAGE_FOLDERS, by_folder
from lakebed.importers.folders.pictures import IMAGE_KINDS, images_of

_DOCUMENT_BYTES = 1 << 20
"""Maximum size of data.yaml or a file of classes; 10,000 classes take 200 kB."""
_LIST_BYTES = 1 << 30
"""Maximum size of a list of images, enough for 10 million paths."""
_MOST_CLASSES = 100_000

_LABEL_FOLDERS = ("labels", "annotations")
_CLASS_FILES = ("classes.txt", "classes.names", "obj.names", "names.txt", "predefined_classes.txt")
_KEYS = ("train", "val", "test")


@dataclass
class Layout:
    """Images and classes of a source.

    Parameters
    ----------
    images
        Split -> names of its images, in order; if there are no splits, "" -> all images.
    names
        Names of the classes by number; None if unknown.
    kpt_shape
        Number of points of an object, and number of numbers per point (2 or 3); None if data.yaml lacks them.
    about
        Other entries of data.yaml.
    """

    images: dict[str, list[str]]
    names: list[str] | None = None
    kpt_shape: tuple[int, int] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def description_of(source: Source) -> str | None:
    """Return the name of the data.yaml or obj.data nearest to the root of a source; None if the source has none.

    Raises
    ------
    IngestionError
        If several are equally near to the root.
    """
    found = [name for name in source.with_suffix(".yaml", ".yml", ".data") if _describes(source, name)]
    if not found:
        return None
    depth = min(name.count("/") for name in found)
    nearest = [name for name in found if name.count("/") == depth]
    usual = [name for name in nearest if stem_of(name) in ("data", "dataset", "obj")]
    nearest = usual or nearest
    if len(nearest) > 1:
        raise IngestionError(
            f"{source.shown} has several descriptions ({', '.join(nearest)}): say which, data=... (--data)"
        )
    return nearest[0]


def layout_of(source: Source, data: str | None, classes: str | None) -> Layout:
    """Return the images and classes of a folder.

    Parameters
    ----------
    data
        The data.yaml or obj.data to use; None looks for it in the source.
    classes
        File with a class on each line; None takes the names of data.yaml, or looks for such a file in the source.

    Raises
    ------
    IngestionError
        If a file that describes the source is damaged, or none of the images that it names exists.
    """
    name = data if data is not None else description_of(source)
    told = Layout({})
    entries = _described(source, name, told) if name is not None else {}
    if classes is not None:
        told.names = lines_of_classes(source.at(classes))
    elif told.names is None:
        beside = [one for one in source.files if one.rpartition("/")[2] in _CLASS_FILES]
        nearest = min(beside, key=lambda one: (one.count("/"), one), default=None)
        told.names = None if nearest is None else _classes_in(source, nearest, nearest)
    images = images_of(source)
    if not images:
        raise IngestionError(f"{source.shown} has no images")
    if any(entries.get(key) for key in _KEYS):
        base = name.rpartition("/")[0] if name in source.files else ""
        _Below(source, base).take(entries, images, told)
    else:
        told.images = by_folder(images)
    return told


def lines_of_classes(source: Source) -> list[str]:
    """Return the names of classes in a file with one name on each line.

    Raises
    ------
    IngestionError
        If the file is not a small text file.
    """
    return _classes_in(source, "", source.shown)


def _classes_in(source: Source, name: str, shown: str) -> list[str]:
    lines = [line.strip() for line in text_of(_document(source, name, shown), shown).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return _distinct([line or str(number) for number, line in enumerate(lines)], shown, [])


class LabelFiles:
    """Label files of a source, which are looked up by the names of images.

    Parameters
    ----------
    source
        Source of the label files.
    apart
        Whether the label files are in another folder than the images, at the same relative paths or with the same
        stems.
    """

    def __init__(self, source: Source, *, apart: bool = False) -> None:
        self._names = source.with_suffix(".txt")
        # Map the name with a suffix in lower case, so that files such as 1.TXT are found too.
        self._texts = {f"{name[:-4]}.txt": name for name in self._names}
        self._apart = apart
        self._by_stem: dict[str, str | None] = {}
        for name in self._names if apart else ():
            stem = stem_of(name)
            self._by_stem[stem] = None if stem in self._by_stem else name

    def of(self, image: str) -> str | None:
        """Return the name of the label file of an image; None if it has none."""
        stem = image[: len(image) - len(suffix_of(image))]
        for candidate in self._candidates(stem):
            if candidate in self._texts:
                return self._texts[candidate]
        return self._by_stem.get(stem_of(image)) if self._apart else None

    def unused(self, images: Source) -> list[Problem]:
        """Report label files that belong to no image; files beside images may be other texts.

        Parameters
        ----------
        images
            Source of the images.
        """
        used = set(map(self.of, images_of(images)))
        unused = [
            name
            for name in self._names
            if name not in used
            and name.rpartition("/")[2] not in _CLASS_FILES
            and (self._apart or any(part in _LABEL_FOLDERS for part in name.split("/")[:-1]))
        ]
        if not unused:
            return []
        shown = ", ".join(unused[:3]) + (", ..." if len(unused) > 3 else "")
        return [Problem("labels", f"{len(unused):,} label files are of no image: {shown}", 0)]

    @staticmethod
    def _candidates(stem: str) -> Iterator[str]:
        parts = stem.split("/")
        for at in range(len(parts) - 2, -1, -1):
            if parts[at] in IMAGE_FOLDERS:
                for folder in _LABEL_FOLDERS:
                    yield "/".join([*parts[:at], folder, *parts[at + 1 :]]) + ".txt"
                break
        yield stem + ".txt"


# -- descriptions ------------------------------------------------------------------------------------------------


def _describes(source: Source, name: str) -> bool:
    if source.files[name] > _DOCUMENT_BYTES:
        return False
    head = source.read(name)
    if suffix_of(name) == ".data":
        return b"names" in head and b"train" in head
    return b"names" in head and (b"train" in head or b"val" in head)


def _described(source: Source, name: str, told: Layout) -> dict[str, Any]:
    """Read classes and number of points from a description into `told`; return the splits that it names."""
    inside = name in source.files
    raw = _document(source if inside else source.at(name), name if inside else "", name)
    if suffix_of(name) == ".data":
        return _darknet(source, name, raw, told)
    entries = yaml_of(raw, name)
    if not isinstance(entries, Mapping):
        raise IngestionError(f"{name} must be a mapping of train, val and names")
    names = entries.get("names")
    if names is not None:
        told.names = _names(names, name, told.problems)
    count = entries.get("nc")
    if told.names is not None and type(count) is int and count != len(told.names):
        told.problems.append(Problem(name, f"nc is {count}, and there are {len(told.names)} names", 0))
    if entries.get("kpt_shape") is not None:
        told.kpt_shape = kpt_shape_of(entries["kpt_shape"], f"kpt_shape in {name}")
    known = {"train", "val", "test", "names", "path"}
    told.about = {str(key): as_json(value) for key, value in entries.items() if key not in known}
    if isinstance(names, Mapping):
        told.about["names"] = {str(key): str(value) for key, value in names.items()}
    found = {key: entries.get(key) for key in _KEYS}
    found["val"] = found["val"] or entries.get("valid") or entries.get("validation")
    return {**found, "path": entries.get("path")}


def _darknet(source: Source, name: str, raw: bytes, told: Layout) -> dict[str, Any]:
    entries = {}
    for line in text_of(raw, name).splitlines():
        key, equals, value = line.partition("=")
        if equals:
            entries[key.strip()] = value.strip()
    found = None
    if entries.get("names"):
        found = _Below(source, name.rpartition("/")[0]).name_of(entries["names"])
    if found in source.files:
        told.names = _classes_in(source, found, found)
    val = entries.get("valid") or entries.get("val")
    return {"train": entries.get("train"), "val": val, "test": entries.get("test")}


def yaml_of(raw: bytes, name: str) -> Any:
    """Return the content of a YAML file.

    Raises
    ------
    IngestionError
        If it cannot be read.
    ModuleNotInstalledException
        If pyyaml is missing.
    """
    yaml = module("yaml", f"{name} needs the package 'pyyaml'", "yolo")
    with damaged(f"{name} cannot be read", RecursionError, ValueError):
        try:
            return yaml.safe_load(text_of(raw, name))
        except yaml.YAMLError as error:
            # Its first line alone lacks the place.
            raise IngestionError(f"{name} cannot be read: {error}") from error


def _names(names: Any, name: str, problems: list[Problem]) -> list[str]:
    """Return the names of classes in the order of their numbers; a class without a name is named by its number."""
    if isinstance(names, str) or not isinstance(names, list | Mapping):
        raise IngestionError(f"names in {name} must be a list, or a mapping from numbers to names")
    pairs: Iterable[tuple[Any, Any]] = names.items() if isinstance(names, Mapping) else enumerate(names)
    found: dict[int, str] = {}
    for key, value in pairs:
        try:
            number = int(key)
        except (TypeError, ValueError) as error:
            raise IngestionError(f"{key!r} in the names of {name} is not the number of a class") from error
        if not 0 <= number < _MOST_CLASSES:
            raise IngestionError(f"class {number} in {name} is not between 0 and {_MOST_CLASSES - 1:,}")
        found[number] = str(value)
    listed = [found.get(number, str(number)) for number in range(max(found, default=-1) + 1)]
    return _distinct(listed, name, problems)


def _distinct(names: list[str], where: str, problems: list[Problem]) -> list[str]:
    taken: set[str] = set()
    for number, name in enumerate(names):
        chosen, more = name, number
        while chosen in taken:
            chosen, more = f"{name} ({more})", more + 1
        if chosen != name:
            problems.append(
                Problem(where, f"class {number} has the name of another, {name!r}: {chosen!r}", 0)
            )
        taken.add(chosen)
        names[number] = chosen
    return names


def kpt_shape_of(value: Any, where: str) -> tuple[int, int]:
    """Return the number of points, and of numbers for each point.

    Raises
    ------
    IngestionError
        If the value is no such pair, or too large.
    """
    sides = value if isinstance(value, list) else []
    if [type(one) for one in sides] != [int, int] or sides[1] not in (2, 3) or sides[0] < 1:
        raise IngestionError(f"{where} must be [points, 2 or 3], such as 17,3, not {value!r}")
    if sides[0] > _MOST_CLASSES:
        raise IngestionError(f"{where} is too large: {value!r}")
    return sides[0], sides[1]


def _document(source: Source, name: str, shown: str, most: int = _DOCUMENT_BYTES) -> bytes:
    if (name or source.name) not in source.files:
        raise IngestionError(f"the file {shown} is missing")
    return source.document(name, most)


def text_of(raw: bytes, name: str) -> str:
    """Return the text of a file; see :func:`decoded`."""
    return decoded(raw, name, "utf-8-sig")


# -- images of splits --------------------------------------------------------------------------------------------


class _Below:
    """Files and folders of a source, which are looked up by the paths in a description.

    Parameters
    ----------
    base
        Folder of the description.
    """

    def __init__(self, source: Source, base: str) -> None:
        self._source, self._base = source, base
        self._folders = {""}
        for folder in source.folders:
            while folder not in self._folders:
                self._folders.add(folder)
                folder = folder.rpartition("/")[0]

    def name_of(self, path: str, base: str | None = None) -> str | None:
        """Find the file or folder of a path; return its name, "" for the root, or None if it is missing."""
        parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        for start in range(len(parts) or 1):
            tail = "/".join(parts[start:])
            for prefix in dict.fromkeys((self._base if base is None else base, "")):
                name = f"{prefix}/{tail}".strip("/")
                if name in self._source.files or name in self._folders:
                    return name
        return None

    def take(self, entries: Mapping[str, Any], images: list[str], told: Layout) -> None:
        """Add the images of each split that a description names to `told`."""
        root = entries.get("path")
        prefix = root if isinstance(root, str) else ""
        for split in _KEYS:
            value = entries.get(split)
            found: list[str] = []
            for part in value if isinstance(value, list) else [value] if value else []:
                if not isinstance(part, str):
                    raise IngestionError(f"{split} must name folders or lists of images, not {part!r}")
                found += self._images_at(f"{prefix}/{part}", images, split, told)
            if found:
                told.images[split] = found
        if not told.images:
            named = ", ".join(f"{key}: {entries[key]}" for key in _KEYS if entries.get(key))
            raise IngestionError(
                f"none of the named folders or lists ({named}) is below {self._source.shown}"
            )
        lists = list(told.images.values())
        if len(lists) > 1 and all(one == lists[0] for one in lists):
            same = f"{' and '.join(told.images)} are the same images: they are imported once"
            told.problems.append(Problem("splits", same, 0))
            told.images = {"": lists[0]}
        taken = {name for names in told.images.values() for name in names}
        beside = sum(name not in taken for name in images)
        if beside:
            told.problems.append(Problem("splits", "images that no split has are not imported", beside))
        twice = sum(map(len, told.images.values())) - len(taken)
        if twice:
            several = f"{twice:,} images are in several splits, a row for each"
            told.problems.append(Problem("splits", several, 0))

    def _images_at(self, path: str, images: list[str], split: str, told: Layout) -> list[str]:
        """Return the images of a folder or of a list, or the one image, that a description names."""
        source, name = self._source, self.name_of(path)
        if name is None:
            told.problems.append(Problem(split, f"{path.lstrip('/')} is not below {source.shown}", 0))
            return []
        if name not in source.files:
            return [one for one in images if not name or one.startswith(f"{name}/")]
        if suffix_of(name) in IMAGE_KINDS:
            return [name]
        if suffix_of(name) != ".txt":
            raise IngestionError(f"{split} is {name}, which is neither a folder nor a list of images (.txt)")
        found = []
        lines = text_of(_document(source, name, name, _LIST_BYTES), name).splitlines()
        for number, line in enumerate(map(str.strip, lines), 1):
            image = self.name_of(line, name.rpartition("/")[0]) if line else None
            if image is not None and suffix_of(image) in IMAGE_KINDS:
                found.append(image)
            elif line:
                told.problems.append(Problem(f"{name} line {number}", f"the image {line!r} is missing"))
        return found
