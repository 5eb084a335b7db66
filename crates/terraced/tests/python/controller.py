"""Client on the stubs of p4.v1. Sends requests as given, also invalid ones, and returns names of status codes."""

import itertools
import os
import queue
import threading
import time

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc

NODE = os.environ["NODE"]
PROGRAMS = os.environ["PROGRAMS"]
DEVICE = 1
INSERT, MODIFY, DELETE = p4.Update.INSERT, p4.Update.MODIFY, p4.Update.DELETE
ACTIONS = p4.SetForwardingPipelineConfigRequest

# Each client takes a larger election id, because the node remembers the largest.
elections = itertools.count(int(time.time()) << 20)


def canonical(value):
    """Encodes a number as the shortest byte string; returns bytes and text unchanged."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def config(program, cookie=None):
    """Returns the forwarding pipeline config of a program."""
    made = p4.ForwardingPipelineConfig()
    with open(f"{PROGRAMS}/{program}.p4info.txtpb") as text:
        text_format.Merge(text.read(), made.p4info)
    with open(f"{PROGRAMS}/{program}.ir", "rb") as ir:
        made.p4_device_config = ir.read()
    if cookie is not None:
        made.cookie.cookie = cookie
    return made


def name_of(code):
    return code_pb2.Code.Name(code)


def codes(error):
    """Returns the codes of a failed request's parts, or one code if it failed as a whole."""
    trailers = dict(error.trailing_metadata() or ())
    if "grpc-status-details-bin" not in trailers:
        return error.code().name
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert error.code() == grpc.StatusCode.UNKNOWN and status.code == code_pb2.UNKNOWN
    parts = []
    for one in status.details:
        part = p4.Error()
        assert one.Unpack(part)
        assert part.canonical_code == 0 or part.message, "an error says why"
        parts.append(name_of(part.canonical_code))
    return parts


class Stream:
    """StreamChannel whose received messages are sorted by type."""

    def __init__(self, stub):
        self.out = queue.Queue()
        self.came = {kind: queue.Queue() for kind in ("arbitration", "packet", "digest", "idle_timeout_notification", "error", "end")}
        self.call = stub.StreamChannel(iter(self.out.get, None))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        try:
            for message in self.call:
                kind = message.WhichOneof("update")
                self.came[kind].put(getattr(message, kind))
            self.came["end"].put("OK")
        except grpc.RpcError as error:
            self.came["end"].put(error.code().name)

    def send(self, **message):
        self.out.put(p4.StreamMessageRequest(**message))

    def claim(self, election=None, device=DEVICE, role=None, role_config=None):
        update = p4.MasterArbitrationUpdate(device_id=device)
        if role is not None:
            update.role.name = role
        if role_config is not None:
            update.role.config.CopyFrom(role_config)
        if election is not None:
            update.election_id.CopyFrom(uint128(election))
        self.send(arbitration=update)

    def next(self, kind, timeout=5):
        """Returns the next message of a type; None after a time-out."""
        try:
            return self.came[kind].get(timeout=timeout)
        except queue.Empty:
            return None

    def all(self, kind, timeout):
        """Returns the messages of a type that arrive in that time."""
        found, end = [], time.monotonic() + timeout
        while (rest := end - time.monotonic()) > 0:
            one = self.next(kind, rest)
            if one is not None:
                found.append(one)
        return found

    def close(self):
        self.out.put(None)
        self.call.cancel()


def uint128(number):
    return p4.Uint128(high=number >> 64, low=number & (2**64 - 1))


class Requests:
    """Requests of a client with an election id; objects are named as in a P4Info."""

    def __init__(self, stub, election, info, device=DEVICE, role=""):
        self.stub, self.election, self.device, self.role = stub, election, device, role
        self.tables, self.acts, self.objects = {}, {}, {}
        for kind, of_kind in info.ListFields():
            if kind.name in ("pkg_info", "type_info"):
                continue
            for one in of_kind:
                names = {"tables": self.tables, "actions": self.acts}.get(kind.name, self.objects)
                names[one.preamble.alias] = one

    def who(self):
        return {"device_id": self.device, "role": self.role, "election_id": uint128(self.election)}

    def id(self, name):
        return (self.objects.get(name) or self.tables.get(name) or self.acts[name]).preamble.id

    # Entities.

    def match(self, fields, given):
        """Returns match fields, given by the last part of their names: a value; (value, prefix length);
        (value, mask); (low, high)."""
        matches = []
        for name, value in given.items():
            field = next(field for field in fields if field.name.split(".")[-1] == name)
            match = p4.FieldMatch(field_id=field.id)
            kind = p4info_pb2.MatchField.MatchType.Name(field.match_type)
            if kind == "EXACT":
                match.exact.value = canonical(value)
            elif kind == "OPTIONAL":
                match.optional.value = canonical(value)
            elif kind == "LPM":
                match.lpm.value, match.lpm.prefix_len = canonical(value[0]), value[1]
            elif kind == "TERNARY":
                match.ternary.value, match.ternary.mask = map(canonical, value)
            else:
                match.range.low, match.range.high = map(canonical, value)
            matches.append(match)
        return matches

    def action(self, name, *args):
        made = p4.Action(action_id=self.id(name))
        for number, arg in enumerate(args, 1):
            made.params.add(param_id=number, value=canonical(arg))
        return made

    def entry(self, table, match=None, action=None, **other):
        """Returns an entry. `action` is a message Action, or one of {"member": ID}, {"group": ID},
        {"set": [(action, weight), ...]}."""
        made = p4.TableEntry(table_id=self.id(table), **other)
        made.match.extend(self.match(self.tables[table].match_fields, match or {}))
        if isinstance(action, p4.Action):
            made.action.action.CopyFrom(action)
        elif action and "member" in action:
            made.action.action_profile_member_id = action["member"]
        elif action and "group" in action:
            made.action.action_profile_group_id = action["group"]
        elif action:
            for one, weight in action["set"]:
                made.action.action_profile_action_set.action_profile_actions.add(action=one, weight=weight)
        return made

    def host(self, number, action, **other):
        return self.entry("hosts", {"destination": number}, action, **other)

    def member(self, profile, number, action=None):
        return p4.ActionProfileMember(action_profile_id=self.id(profile), member_id=number, action=action)

    def group(self, profile, number, members=(), **other):
        made = p4.ActionProfileGroup(action_profile_id=self.id(profile), group_id=number, **other)
        if "max_size" not in other:
            made.max_size = self.objects[profile].max_group_size
        for member, weight in members:
            made.members.add(member_id=member, weight=weight)
        return made

    def counter(self, name, index=None, data=None):
        return p4.CounterEntry(counter_id=self.id(name), index=at(index), data=data)

    def meter(self, name, index=None, rates=None):
        return p4.MeterEntry(meter_id=self.id(name), index=at(index), config=rates)

    def register(self, name, index=None, data=None):
        return p4.RegisterEntry(register_id=self.id(name), index=at(index), data=data)

    def value_set(self, name, *members):
        made = p4.ValueSetEntry(value_set_id=self.id(name))
        for member in members:
            match = made.members.add().match.add(field_id=1)
            match.exact.value = canonical(member)
        return made

    def digest(self, name, max_timeout_ns=0, max_list_size=1, ack_timeout_ns=0):
        made = p4.DigestEntry(digest_id=self.id(name))
        made.config.max_timeout_ns, made.config.max_list_size = max_timeout_ns, max_list_size
        made.config.ack_timeout_ns = ack_timeout_ns
        return made

    # Requests.

    def write(self, *updates, atomicity=p4.WriteRequest.CONTINUE_ON_ERROR, **who):
        """Writes `updates`, pairs of type and entity. Returns a code for each, or one code if the request
        failed as a whole."""
        request = p4.WriteRequest(**{**self.who(), **who}, atomicity=atomicity)
        for kind, made in updates:
            request.updates.add(type=kind, entity=entity(made))
        try:
            self.stub.Write(request, timeout=20)
        except grpc.RpcError as error:
            return codes(error)
        return ["OK"] * len(updates)

    def read(self, *wanted, **who):
        """Returns the read entities, without their outer message."""
        request = p4.ReadRequest(device_id=self.device, entities=map(entity, wanted), **who)
        found = []
        for part in self.stub.Read(request, timeout=20):
            found += [inner(one) for one in part.entities]
        return found

    def read_codes(self, *wanted, **who):
        """Returns the codes of a read's rejected parts."""
        try:
            self.read(*wanted, **who)
        except grpc.RpcError as error:
            return codes(error)
        return "OK"

    def pipeline(self, action, made=None, **who):
        """Returns the code of a SetForwardingPipelineConfig."""
        request = ACTIONS(**{**self.who(), **who}, action=action, config=made)
        try:
            self.stub.SetForwardingPipelineConfig(request, timeout=60)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"


def at(index):
    return None if index is None else p4.Index(index=index)


def entity(made):
    if isinstance(made, p4.Entity):
        return made
    if isinstance(made, p4.MulticastGroupEntry):
        return p4.Entity(packet_replication_engine_entry=p4.PacketReplicationEngineEntry(multicast_group_entry=made))
    if isinstance(made, p4.CloneSessionEntry):
        return p4.Entity(packet_replication_engine_entry=p4.PacketReplicationEngineEntry(clone_session_entry=made))
    field = next(field for field in p4.Entity.DESCRIPTOR.fields if field.message_type.name == type(made).__name__)
    return p4.Entity(**{field.name: made})


def inner(one):
    made = getattr(one, one.WhichOneof("entity"))
    return getattr(made, made.WhichOneof("type")) if isinstance(made, p4.PacketReplicationEngineEntry) else made


def port(number):
    return canonical(number)


def flood(number, *replicas, **other):
    """Returns a multicast group of (port, instance) pairs."""
    return p4.MulticastGroupEntry(multicast_group_id=number, replicas=[p4.Replica(port=port(p), instance=i) for p, i in replicas], **other)


def copies(number, *replicas, **other):
    """Returns a clone session."""
    return p4.CloneSessionEntry(session_id=number, replicas=[p4.Replica(port=port(p), instance=i) for p, i in replicas], **other)


def connect(address=NODE):
    channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    return channel, p4runtime_pb2_grpc.P4RuntimeStub(channel)


class Controller(Requests):
    """Returns a client with its own connection and stream."""

    def __init__(self, program="everything", role=None, role_config=None, primary=True, election=None):
        self.channel, stub = connect()
        self.stream = Stream(stub)
        election = next(elections) if election is None else election
        super().__init__(stub, election, config(program).p4info, role=role or "")
        self.stream.claim(election if primary else None, role=role, role_config=role_config)
        self.advice = self.stream.next("arbitration")

    def close(self):
        self.stream.close()
        self.channel.close()
