// One of each object that a controller can write, with visible effects: table `hosts` decides each packet by its
// destination, and may pass it to another table (`check`). tests/shell writes and reads it, tests/ptf also sends packets.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@p4runtime_translation("example.org/port", 32)
type bit<9> port_t;
@p4runtime_translation("example.org/name", string)
type bit<16> name_t;

enum Mood { happy, sad }

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<6> reason; bit<1> copied; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> rest; }
header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header tag_t { bit<16> value; bit<16> kind; }
header ipv4_t {
    bit<8> version_ihl; bit<8> tos; bit<16> len; bit<16> id; bit<16> fragment; bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> source; bit<32> destination;
}

struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; tag_t tag; ipv4_t ipv4; }
struct pair_t { bit<20> left; int<8> right; }
struct learned_t { bit<48> source; bit<9> port; bool tagged; }
struct metadata {
    bit<8> stage;
    bool learn;
    bit<6> reason;
    bit<2> colour;
    bit<2> asks;
    bit<32> index;
    bit<32> seen;
    port_t port;
    name_t name;
    int<8> offset;
    Mood mood;
    pair_t pair;
}

parser Parse(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    value_set<bit<16>>(2) tagged;
    state start {
        transition select(s.ingress_port) { CPU_PORT: from_controller; default: ethernet; }
    }
    state from_controller { packet.extract(h.packet_out); transition ethernet; }
    state ethernet {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x0800: ipv4; tagged: tag; default: accept; }
    }
    state tag {
        packet.extract(h.tag);
        transition select(h.tag.kind) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(h.ipv4); transition accept; }
}

control Check(inout headers h, inout metadata m) { apply { } }
control Compute(inout headers h, inout metadata m) { apply { } }

control Decide(inout headers h, inout metadata m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) by_port;
    counter(4, CounterType.packets) stages;
    direct_counter(CounterType.packets_and_bytes) host_hits;
    meter(8, MeterType.packets) rates;
    meter(8, MeterType.bytes) byte_rates;
    direct_meter<bit<2>>(MeterType.packets) flow_rates;
    register<bit<32>>(8) words;
    register<pair_t>(4) pairs;
    action_profile(4) shared;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc16, 16, 16) ways;
    @max_group_size(3) @selector_size_semantics("sum_of_members") @max_member_weight(10)
    action_selector(HashAlgorithm.crc16, 16, 16) members;

    action drop() { mark_to_drop(s); }
    action send(bit<9> port) { s.egress_spec = port; }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action mirror(bit<32> session, bit<9> port) { clone(CloneType.I2E, session); s.egress_spec = port; }
    action punt(bit<6> reason) { m.reason = reason; s.egress_spec = CPU_PORT; }
    action learn(bit<9> port) { m.learn = true; s.egress_spec = port; }
    action check(bit<8> stage) { m.stage = stage; mark_to_drop(s); }
    // Selects the meter or register after the table, because a table of a chip can have only a few.
    action police(bit<32> index, bit<9> port) { m.asks = 1; m.index = index; s.egress_spec = port; }
    action police_bytes(bit<32> index, bit<9> port) { m.asks = 2; m.index = index; s.egress_spec = port; }
    action remember(bit<32> index, bit<9> port) { m.asks = 3; m.index = index; s.egress_spec = port; }
    // The result is in the last bytes of the source address.
    action police_flow(bit<9> port) {
        flow_rates.read(m.colour);
        h.ethernet.source[7:0] = 6w0 ++ m.colour;
        s.egress_spec = port;
    }
    action wide(bit<128> value, int<12> number) { }
    action to_port(port_t port) { m.port = port; }

    table hosts {
        key = { h.ethernet.destination: exact; }
        actions = { send; flood; mirror; punt; learn; check; police; police_bytes; remember; drop; }
        default_action = drop();
        counters = host_hits;
        support_timeout = true;
        size = 64;
    }
    table routes {
        key = { h.ipv4.destination: lpm; }
        actions = { send; drop; }
        default_action = drop();
        size = 4;
    }
    table kinds {
        key = {
            h.ethernet.kind: exact;
            h.ipv4.source: ternary;
            h.ipv4.ttl: range;
            h.ipv4.protocol: optional;
        }
        actions = { send; drop; @tableonly wide; @defaultonly flood; }
        default_action = drop();
    }
    table flows {
        key = { h.ethernet.source: exact; }
        actions = { police_flow; drop; }
        default_action = drop();
        meters = flow_rates;
    }
    table profiled {
        key = { h.ethernet.source: exact; }
        actions = { send; drop; }
        default_action = drop();
        implementation = shared;
    }
    table spread {
        key = { h.ethernet.source: exact; h.ipv4.source: selector; }
        actions = { send; drop; }
        default_action = drop();
        implementation = ways;
    }
    table spread_members {
        key = { h.ethernet.source: exact; h.ipv4.source: selector; }
        actions = { send; drop; }
        default_action = drop();
        implementation = members;
    }
    table ports {
        key = { m.port: exact; m.offset: exact; m.mood: exact; }
        actions = { to_port; drop; }
        default_action = drop();
    }
    table names {
        key = { m.name: exact; }
        actions = { drop; }
        default_action = drop();
    }
    direct_counter(CounterType.packets) fixed_hits;
    table fixed {
        key = { h.ethernet.kind: exact; }
        actions = { send; drop; }
        const default_action = drop();
        const entries = {
            0x800: send(2);
            0x86dd: drop();
        }
        counters = fixed_hits;
    }
    table partly {
        key = { h.ethernet.kind: exact; }
        actions = { send; drop; }
        default_action = drop();
        entries = {
            const 0x800: send(2);
            0x86dd: drop();
        }
    }
    table keyless {
        actions = { send; drop; }
        default_action = drop();
    }
    apply {
        by_port.count((bit<32>) s.ingress_port);
        if (h.packet_out.isValid()) {
            s.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
        } else {
            if (h.tag.isValid()) { h.tag.value = 0xbeef; }
            hosts.apply();
            if (m.asks == 1) {
                rates.execute_meter(m.index, m.colour);
                h.ethernet.source[7:0] = 6w0 ++ m.colour;
            } else if (m.asks == 2) {
                byte_rates.execute_meter(m.index, m.colour);
                h.ethernet.source[7:0] = 6w0 ++ m.colour;
            } else if (m.asks == 3) {
                words.read(m.seen, m.index);
                h.ethernet.source[31:0] = m.seen;
                words.write(m.index, m.seen + 1);
            }
            if (m.learn) {
                digest<learned_t>(1, { h.ethernet.source, s.ingress_port, h.tag.isValid() });
            }
            if (m.stage == 1) { routes.apply(); }
            else if (m.stage == 2) { kinds.apply(); }
            else if (m.stage == 3) { flows.apply(); }
            else if (m.stage == 4) { profiled.apply(); }
            else if (m.stage == 5) { spread.apply(); }
            else if (m.stage == 6) { spread_members.apply(); }
            else if (m.stage == 7) { ports.apply(); names.apply(); }
            else if (m.stage == 8) { fixed.apply(); }
            else if (m.stage == 9) { partly.apply(); }
            else if (m.stage == 10) { keyless.apply(); }
            else if (m.stage == 11) { pairs.read(m.pair, 0); stages.count(1); }
        }
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (s.egress_port == CPU_PORT) {
            h.packet_in.setValid();
            h.packet_in.ingress_port = s.ingress_port;
            h.packet_in.reason = m.reason;
            h.packet_in.copied = s.instance_type == 1 ? 1w1 : 1w0;
        } else if (s.egress_rid != 0) {
            h.ethernet.source = (bit<48>) s.egress_rid;
        }
    }
}

control Deparse(packet_out packet, in headers h) {
    apply { packet.emit(h.packet_in); packet.emit(h.packet_out); packet.emit(h.ethernet); packet.emit(h.tag); packet.emit(h.ipv4); }
}

V1Switch(Parse(), Check(), Decide(), Leave(), Compute(), Deparse()) main;
