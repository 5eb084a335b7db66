// One of each object that a control plane can write.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", 32)
type bit<9> port_t;
@p4runtime_translation("example.org/name", string)
type bit<16> name_t;
type bit<48> mac_t;

enum Mood { happy, sad }
enum bit<8> Code { one = 1, nine = 9 }

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<6> reason;
    bit<1> last;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<3> queue;
    int<4> offset;
}

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> type_;
}

header wide_t {
    bit<128> a;
    int<12> b;
    bit<4> c;
}

struct headers_t {
    packet_out_t sent;
    ethernet_t ethernet;
    wide_t wide;
}

struct learned_t {
    mac_t src;
    bit<9> port;
    Code code;
    Mood mood;
    bool ok;
    error e;
}

struct pair_t {
    bit<20> left;
    int<8> right;
}

struct record_t {
    pair_t pair;
    bool set;
    bit<100> big;
}

struct meta_t {
    port_t port;
    name_t name;
    bit<1> one;
    bit<2> colour;
    int<8> signed_;
    Mood mood;
    record_t record;
    bit<32> index;
}

parser p(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(3) types;
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.type_) {
            types: wide;
            default: accept;
        }
    }
    state wide {
        b.extract(h.wide);
        transition accept;
    }
}

control verify_(inout headers_t h, inout meta_t m) { apply {} }
control compute(inout headers_t h, inout meta_t m) { apply {} }

control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) hits;
    meter(8, MeterType.bytes) rates;
    register<record_t>(4) records;
    register<bit<32>>(4) words;
    direct_counter(CounterType.packets_and_bytes) kinds_count;
    direct_meter<bit<2>>(MeterType.packets) kinds_meter;
    action_profile(4) shared;
    @max_group_size(6)
    action_selector(HashAlgorithm.crc16, 8, 16) ways;
    @max_group_size(3) @selector_size_semantics("sum_of_members") @max_member_weight(10)
    action_selector(HashAlgorithm.crc16, 8, 16) others;

    action drop() { mark_to_drop(s); }
    action forward(bit<9> port, mac_t dst) {
        s.egress_spec = port;
        h.ethernet.dst = dst;
    }
    action to_port(port_t port) { m.port = port; }
    action wide(bit<128> a, int<12> b) {
        h.wide.a = a;
        h.wide.b = b;
    }
    @id(77) action last() { s.egress_spec = 1; }

    table kinds {
        key = {
            h.ethernet.type_: exact;
            h.ethernet.src: ternary;
            h.wide.c: range;
            m.one: optional;
        }
        actions = { forward; drop; @tableonly wide; @defaultonly last; }
        default_action = last();
        counters = kinds_count;
        meters = kinds_meter;
        size = 10;
    }
    table routes {
        key = { h.wide.a: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        support_timeout = true;
        size = 3;
    }
    table signs {
        key = { m.signed_: exact; h.wide.b: ternary; m.mood: exact; }
        actions = { drop; wide; }
        default_action = drop();
    }
    table ports {
        key = { m.port: ternary; m.index: lpm; }
        actions = { to_port; drop; }
        default_action = drop();
    }
    table port_prefixes {
        key = { m.port: lpm; }
        actions = { drop; }
        default_action = drop();
    }
    table names {
        key = { m.name: exact; }
        actions = { drop; }
        default_action = drop();
    }
    direct_counter(CounterType.packets) fixed_count;
    table fixed {
        key = { h.ethernet.type_: exact; }
        actions = { forward; drop; }
        const default_action = drop();
        const entries = {
            0x800: forward(1, (mac_t) 48w1);
            0x86dd: drop();
        }
        counters = fixed_count;
    }
    table partly {
        key = { h.ethernet.type_: exact; }
        actions = { forward; drop; }
        default_action = drop();
        entries = {
            const 0x800: drop();
            0x86dd: drop();
        }
    }
    table keyless {
        actions = { forward; drop; }
        default_action = drop();
    }
    table indirect {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        implementation = shared;
    }
    table spread {
        key = { h.ethernet.dst: exact; h.ethernet.src: selector; }
        actions = { forward; drop; @defaultonly last; }
        default_action = last();
        implementation = ways;
        size = 4;
    }
    table spread_members {
        key = { h.ethernet.dst: exact; h.ethernet.src: selector; }
        actions = { forward; drop; }
        default_action = drop();
        implementation = others;
    }
    @hidden table secret {
        key = { h.ethernet.dst: exact; }
        actions = { drop; }
        default_action = drop();
    }
    apply {
        kinds.apply(); routes.apply(); signs.apply(); ports.apply(); port_prefixes.apply(); names.apply();
        fixed.apply(); partly.apply(); keyless.apply(); indirect.apply(); spread.apply(); spread_members.apply();
        secret.apply();
        hits.count(m.index);
        rates.execute_meter(m.index, m.colour);
        records.read(m.record, m.index);
        words.write(m.index, 1);
        digest<learned_t>(1, {h.ethernet.src, s.ingress_port, Code.one, Mood.happy, true, error.NoError});
    }
}

control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control deparser(packet_out b, in headers_t h) {
    apply {
        b.emit(h.ethernet);
        b.emit(h.wide);
    }
}

V1Switch(p(), verify_(), ingress(), egress(), compute(), deparser()) main;
