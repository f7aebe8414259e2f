"""Read messages of protocol buffers by a short schema, without generated code.

The catalogue reads checkpoints so, and ``datasets`` the records of TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Sequence[str]]
"""The fields of each message that are read, as ``number name kind``;
``*`` after the kind is a repeated field.
"""


def message_type(root: str, schema: Schema) -> Any:
    """Return the class of the message ``root``, whose ``FromString`` reads bytes.

    Other fields than those of the schema stay in the message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="messages.proto")
    for name, fields in schema.items():
        message = file.message_type.add(name=name)
        for entry in fields:
            number, field, kind = entry.split()
            label = "LABEL_REPEATED" if kind.endswith("*") else "LABEL_OPTIONAL"
            kind = kind.rstrip("*")
            described = message.field.add(name=field, number=int(number), label=label)
            if kind in schema:
                described.type_name = f".{kind}"
            else:
                described.type = f"TYPE_{kind.upper()}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(root))
