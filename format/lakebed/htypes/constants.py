"""Names of the htypes as constants, as the 3.x API offers them: ``lakebed.htype.IMAGE``."""

from __future__ import annotations


class htype:  # noqa: N801
    """Constants with the names of htypes."""

    DEFAULT = "generic"
    AUDIO = "audio"
    BBOX = "bbox"
    BBOX_3D = "bbox.3d"
    BINARY_MASK = "binary_mask"
    CLASS_LABEL = "class_label"
    DICOM = "dicom"
    EMBEDDING = "embedding"
    IMAGE = "image"
    IMAGE_GRAY = "image.gray"
    IMAGE_RGB = "image.rgb"
    INSTANCE_LABEL = "instance_label"
    INTRINSICS = "intrinsics"
    JSON = "json"
    KEYPOINTS_COCO = "keypoints_coco"
    LIST = "list"
    MESH = "mesh"
    NIFTI = "nifti"
    POINT = "point"
    POINT_CLOUD = "point_cloud"
    POLYGON = "polygon"
    SEGMENT_MASK = "segment_mask"
    TAG = "tag"
    TEXT = "text"
    VIDEO = "video"
