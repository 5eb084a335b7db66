"""Reads each pair NAME.txtpb, NAME.bin of a folder. Both must hold the same P4Info, and p4runtime-shell must
resolve its names and ids.

Prints the number of pairs and objects.
"""

import pathlib
import sys

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4runtime_sh.context import Context, P4Type

pairs = objects = 0
for text in sorted(pathlib.Path(sys.argv[1]).glob("*.txtpb")):
    ours = p4info_pb2.P4Info.FromString(text.with_suffix(".bin").read_bytes())
    printed = text_format.Parse(text.read_text(), p4info_pb2.P4Info())
    if printed != ours:
        sys.exit(f"{text.name}: the message differs from the text; the message says\n{text_format.MessageToString(ours)}")
    # The other implementation knows all fields of the message.
    if ours.SerializeToString(deterministic=True) != printed.SerializeToString(deterministic=True):
        sys.exit(f"{text.name}: the message holds fields that are unknown")
    context = Context()
    context.set_p4info(ours)
    for kind in P4Type:
        for name, found in context.get_objs(kind):
            if context.get_obj(kind, name) is not found or context.get_obj_id(kind, name) != found.preamble.id:
                sys.exit(f"{text.name}: the shell finds another object for {kind.pretty_name} {name}")
            if context.get_obj_by_id(found.preamble.id) is not found:
                sys.exit(f"{text.name}: id {found.preamble.id} is used twice")
            objects += 1
    for name, table in context.get_objs(P4Type.table):
        for field in table.match_fields:
            if context.get_mf_id(name, field.name) != field.id:
                sys.exit(f"{text.name}: {name}: the shell finds another key for {field.name}")
    pairs += 1
print(pairs, objects)
