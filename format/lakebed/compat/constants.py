"""Constants of Deep Lake 3.9.52 that scripts import, with their values there; lakebed itself does not read them."""

from __future__ import annotations

from typing import Any

CONSTANTS: dict[str, Any] = {
    "B": 1,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "CHUNKS_FOLDER": "chunks",
    "COMMIT_INFO_FILENAME": "commit_info.json",
    "DATASET_DIFF_FILENAME": "dataset_diff",
    "DATASET_INFO_FILENAME": "dataset_info.json",
    "DATASET_LOCK_FILENAME": "dataset_lock.lock",
    "DATASET_META_FILENAME": "dataset_meta.json",
    "DEFAULT_HTYPE": "generic",
    "DEFAULT_LOCAL_CACHE_SIZE": 0,
    "DEFAULT_MAX_CHUNK_SIZE": 16_000_000,
    "DEFAULT_MEMORY_CACHE_SIZE": 2_000,
    "DEFAULT_READONLY": False,
    "DEFAULT_TILING_THRESHOLD": 16_000_000,
    "DEFAULT_TRANSFORM_SAMPLE_CACHE_SIZE": 16,
    "DELETE_SAFETY_SIZE": 1_000_000_000,
    "ENCODED_CHUNK_NAMES_FOLDER": "chunks_index",
    "ENCODED_CREDS_FOLDER": "creds_index",
    "ENCODED_PAD_NAMES_FOLDER": "pad_index",
    "ENCODED_SEQUENCE_NAMES_FOLDER": "sequence_index",
    "ENCODED_TILE_NAMES_FOLDER": "tiles_index",
    "FIRST_COMMIT_ID": "firstdbf9474d461a19e9333c2fd19b46115348f",
    "LINKED_CREDS_FILENAME": "linked_creds.json",
    "MAX_CHECKPOINTING_INTERVAL": 100_000,
    "META_ENCODING": "utf8",
    "QUERIES_FILENAME": "queries.json",
    "QUERIES_LOCK_FILENAME": "queries.lock",
    "RANDOM_CHUNK_SIZE": 8_000_000,
    "RANDOM_MAX_ALLOWED_CHUNK_SIZE": 10_000_000,
    "RANDOM_MINIMAL_CHUNK_SIZE": 2_000_000,
    "SAMPLE_INFO_TENSOR_MAX_CHUNK_SIZE": 4_000_000,
    "TENSOR_COMMIT_CHUNK_MAP_FILENAME": "chunk_set",
    "TENSOR_COMMIT_DIFF_FILENAME": "commit_diff",
    "TENSOR_INFO_FILENAME": "tensor_info.json",
    "TENSOR_META_FILENAME": "tensor_meta.json",
    "UNSHARDED_ENCODER_FILENAME": "unsharded",
    "UNSPECIFIED": "unspecified",
    "VERSION_CONTROL_INFO_FILENAME": "version_control_info.json",
    "VERSION_CONTROL_INFO_FILENAME_OLD": "version_control_info",
    "VERSION_CONTROL_INFO_LOCK_FILENAME": "version_control_info.lock",
    "VIEW_SUMMARY_SAFE_LIMIT": 10_000,
    "WANDB_INTEGRATION_ENABLED": True,
    "SPINNER_ENABLED": True,
    "SHOW_ITERATION_WARNING": True,
    "LOCKS_ENABLED": True,
    "USE_INDRA": False,
    "ENV_KAGGLE_KEY": "KAGGLE_KEY",
    "ENV_KAGGLE_USERNAME": "KAGGLE_USERNAME",
    "ENV_HUB_DEV_TOKEN": "ACTIVELOOP_HUB_TOKEN",
    "ENV_HUB_DEV_USERNAME": "ACTIVELOOP_HUB_USERNAME",
    "ENV_HUB_DEV_PASSWORD": "ACTIVELOOP_HUB_PASSWORD",
    "ENV_AWS_ACCESS_KEY": "AWS_ACCESS_KEY",
    "ENV_AWS_SECRETS_ACCESS_KEY": "AWS_SECRETS_ACCESS_KEY",
    "ENV_AWS_ENDPOINT_URL": "ENDPOINT_URL",
    "ENV_GOOGLE_APPLICATION_CREDENTIALS": "GOOGLE_APPLICATION_CREDENTIALS",
    "ENV_AZURE_CLIENT_ID": "AZURE_CLIENT_ID",
    "ENV_AZURE_CLIENT_SECRET": "AZURE_CLIENT_SECRET",
    "ENV_AZURE_TENANT_ID": "AZURE_TENANT_ID",
}

COMPRESSIONS: dict[str, Any] = {
    "AUDIO_COMPRESSION": "audio",
    "AUDIO_COMPRESSIONS": ["mp3", "flac", "wav"],
    "BYTE_COMPRESSION": "byte",
    "BYTE_COMPRESSIONS": ["lz4"],
    "COMPRESSION_ALIASES": {"jpg": "jpeg", "tif": "tiff", "jp2": "jpeg2000"},
    "COMPRESSION_TYPES": ["byte", "image", "audio", "video", "point_cloud", "mesh", "nifti"],
    "IMAGE_COMPRESSION": "image",
    "IMAGE_COMPRESSIONS": (
        "bmp dcm mpo fli dib eps gif ico im jpeg jpeg2000 msp pcx png ppm sgi tga tiff webp wmf xbm".split()
    ),
    "MESH_COMPRESSION": "mesh",
    "MESH_COMPRESSIONS": ["ply", "stl"],
    "NIFTI_COMPRESSION": "nifti",
    "NIFTI_COMPRESSIONS": ["nii", "nii.gz"],
    "POINT_CLOUD_COMPRESSION": "point_cloud",
    "POINT_CLOUD_COMPRESSIONS": ["las"],
    "READONLY_COMPRESSIONS": "mpo fli dcm nii nii.gz mp3 flac wav mp4 mkv avi".split(),
    "VIDEO_COMPRESSION": "video",
    "VIDEO_COMPRESSIONS": ["mp4", "mkv", "avi"],
}

HTYPES = (
    "AUDIO BBOX BBOX_3D BINARY_MASK CLASS_LABEL DEFAULT DICOM EMBEDDING IMAGE IMAGE_GRAY IMAGE_RGB INSTANCE_LABEL "
    "INTRINSICS JSON KEYPOINTS_COCO LIST MESH NIFTI POINT POINT_CLOUD POLYGON SEGMENT_MASK TAG TEXT VIDEO"
).split()
"""Names of the class deeplake.htype."""
