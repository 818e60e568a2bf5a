"""Messages of Protocol Buffers: ``tf.train.Example`` and ``SequenceExample`` of TFRecord, ``Datum`` of Caffe.

    Example, SequenceExample  1: Features, 2: FeatureLists
    Features                  1: {1: name, 2: Feature}, repeated
    FeatureLists              1: {1: name, 2: FeatureList}, repeated; FeatureList  1: Feature, repeated
    Feature                   1: BytesList, 2: FloatList or 3: Int64List; each of them  1: values
    Datum                     1-3: channels, height, width; 4: the values in that order, uint8, or a file; 5: label;
                              6: the values as float32; 7: whether field 4 is a file

Both schemas are declared here, because their packages (TensorFlow, Caffe) are large. They live in a pool of their own:
the default pool refuses names that TensorFlow has declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from lakebed.errors import IngestionError

# Message -> its fields in the order of their numbers. A field has a type or the name of a message; ``*`` marks
# repeated fields.
_MESSAGES: Mapping[str, Mapping[str, str]] = {
    "BytesList": {"value": "bytes*"},
    "FloatList": {"value": "float*"},
    "Int64List": {"value": "int64*"},
    "Feature": {"bytes": "BytesList", "float": "FloatList", "int": "Int64List"},
    "NamedFeature": {"name": "bytes", "feature": "Feature"},
    "Features": {"feature": "NamedFeature*"},
    "FeatureList": {"feature": "Feature*"},
    "NamedList": {"name": "bytes", "list": "FeatureList"},
    "FeatureLists": {"list": "NamedList*"},
    "Example": {"features": "Features", "lists": "FeatureLists"},
    "Datum": {
        "channels": "int64",
        "height": "int64",
        "width": "int64",
        "data": "bytes",
        "label": "int64",
        "floats": "float*",
        "is_encoded": "bool",
    },
}
_ONE_OF = frozenset({"Feature"})


def parsed(name: str, data: bytes) -> Any:
    """Parse a message.

    Raises
    ------
    IngestionError
        If the bytes are not such a message.
    """
    from google.protobuf.message import DecodeError

    try:
        return _classes()[name].FromString(data)
    except DecodeError as error:
        raise IngestionError(f"the bytes do not parse as {name}: {error}") from error


@cache
def _classes() -> dict[str, Any]:
    """Return the class of each message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="lakebed.proto", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name="kind")
        for number, (field, kind) in enumerate(fields.items(), 1):
            one = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if kind.endswith("*"):
                one.label = kinds.LABEL_REPEATED
            if name in _ONE_OF:
                one.oneof_index = 0
            of = kind.removesuffix("*")
            if of in _MESSAGES:
                one.type, one.type_name = kinds.TYPE_MESSAGE, of
            else:
                one.type = kinds.Type.Value(f"TYPE_{of.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in _MESSAGES}
