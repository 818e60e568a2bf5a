"""Results of ``tensor.data()`` for each htype (API.md 3.2).

htype                             keys
class_label with names            value, text
image, dicom, nifti               value, sample_info
video files                       frames, timestamps, sample_info
point_cloud files                 the dimensions of the points: X, Y, Z, ...
mesh files                        ply: the properties of its elements; stl: vertices, centroids, normals, sample_info
any other                         value

Several las or ply files give a list of such mappings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import MESH_NAMES, POINT_CLOUD_NAMES, VIDEO_NAMES
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.class_label import to_names

INFOS, TIMESTAMPS, FIELDS = "infos", "timestamps", "fields"

_DESCRIBED = ("image", "dicom", "nifti")


def parts_of(meta: TensorMeta) -> frozenset[str]:
    """Return the names of the arguments that :func:`data_form` needs beside the values."""
    compression = meta.sample_compression
    if meta.is_link and meta.htype not in ("point_cloud", "mesh"):
        return frozenset({INFOS}) if meta.htype in _DESCRIBED and meta.verify else frozenset()
    if meta.htype == "video" and compression in VIDEO_NAMES:
        return frozenset({INFOS, TIMESTAMPS})
    if (meta.htype == "point_cloud" and compression in POINT_CLOUD_NAMES) or (
        meta.htype == "mesh" and compression in MESH_NAMES
    ):
        return frozenset({FIELDS, INFOS}) if compression == "stl" else frozenset({FIELDS})
    return frozenset({INFOS}) if meta.htype in _DESCRIBED else frozenset()


def data_form(
    meta: TensorMeta,
    info: Mapping[str, Any],
    value: Any,
    *,
    infos: Any = None,
    timestamps: Any = None,
    fields: Mapping[str, NDArray[Any]] | Sequence[Mapping[str, NDArray[Any]]] | None = None,
) -> Any:
    """Put values into the form that suits their htype: a mapping, for several las or ply files a list of them.

    Parameters
    ----------
    meta, info
        Metadata and info of the tensor.
    value
        Result of ``numpy()``; for text, json and lists the Python values.
    infos, timestamps
        Results of ``sample_info`` and ``timestamps`` for the same samples.
    fields
        Result of the file codec's ``fields()``: one mapping for a single sample, otherwise one for each.
    """
    parts = parts_of(meta)
    if TIMESTAMPS in parts:
        return {"frames": value, "timestamps": timestamps, "sample_info": infos}
    if FIELDS in parts and fields is not None:
        each = [fields] if isinstance(fields, Mapping) else list(fields)
        if INFOS not in parts:
            return dict(each[0]) if len(each) == 1 else [dict(sample) for sample in each]
        if len(each) == 1:
            infos = infos[0] if isinstance(infos, list) and len(infos) == 1 else infos
            rest = {key: item for key, item in dict(infos or {}).items() if key not in each[0]}
            return {**each[0], "vertices": value, "sample_info": rest}
        keys = dict.fromkeys(key for sample in each for key in sample)
        found = {key: [sample.get(key) for sample in each] for key in keys}
        return {**found, "vertices": value, "sample_info": infos}
    if INFOS in parts and infos is not None:
        return {"value": value, "sample_info": infos}
    names = info.get("class_names")
    if meta.htype == "class_label" and names:
        return {"value": value, "text": _texts(value, list(names))}
    return {"value": value}


def _texts(value: Any, names: Sequence[str]) -> Any:
    return (
        to_names(value, names) if isinstance(value, np.ndarray) else [_texts(item, names) for item in value]
    )
