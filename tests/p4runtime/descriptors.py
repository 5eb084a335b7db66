"""Prints the interface of PyPI's packages, a line for each message, field, enum value and call."""

from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.descriptor_pb2 import ServiceDescriptorProto
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2

FILES = [p4runtime_pb2, p4data_pb2, p4info_pb2, p4types_pb2, status_pb2, code_pb2]
TYPES = {value: name[5:].lower() for name, value in vars(F).items() if name.startswith("TYPE_")}
LABELS = {F.LABEL_OPTIONAL: "optional", F.LABEL_REPEATED: "repeated", F.LABEL_REQUIRED: "required"}


def word(flag):
    return "true" if flag else "false"


def field(f):
    target = f.message_type or f.enum_type
    oneof = f.containing_oneof.name if f.containing_oneof else "-"
    options = f.GetOptions()
    packed = word(options.packed) if options.HasField("packed") else "default"
    print(
        f"field {f.full_name} {f.number} {LABELS[f.label]} {TYPES[f.type]} {target.full_name if target else '-'}"
        f" oneof={oneof} json={f.json_name} packed={packed} deprecated={word(options.deprecated)}"
    )


def enum(e):
    print(f"enum {e.full_name} alias={word(e.GetOptions().allow_alias)}")
    for value in e.values:
        print(f"value {e.full_name}.{value.name} {value.number}")


def message(m):
    print(f"message {m.full_name} map={word(m.GetOptions().map_entry)}")
    for f in m.fields:
        field(f)
    for nested in m.nested_types:
        message(nested)
    for e in m.enum_types:
        enum(e)


def service(s):
    # Only the descriptor's message has the streaming flags.
    proto = ServiceDescriptorProto()
    s.CopyToProto(proto)
    for m in proto.method:
        print(
            f"call {s.full_name}.{m.name} {m.input_type.lstrip('.')} {m.output_type.lstrip('.')}"
            f" client_stream={word(m.client_streaming)} server_stream={word(m.server_streaming)}"
        )


for module in FILES:
    descriptor = module.DESCRIPTOR
    print(f"file {descriptor.name} {descriptor.package} {descriptor.syntax}")
    for m in descriptor.message_types_by_name.values():
        message(m)
    for e in descriptor.enum_types_by_name.values():
        enum(e)
    for s in descriptor.services_by_name.values():
        service(s)
