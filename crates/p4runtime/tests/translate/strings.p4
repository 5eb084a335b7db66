// A router whose objects and ports have names; the device maps the strings to values.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
@p4runtime_translation_mappings({
  // "No VRF" is the first one.
  {"", 0},
  {"management", 10w0x3ff},
})
type bit<10> vrf_id_t;

@p4runtime_translation("", string)
type bit<2> nexthop_id_t;

@p4runtime_translation("", string)
type bit<12> router_interface_id_t;

@p4runtime_translation("example.org/port", string)
type bit<9> port_id_t;

// The same names, with another width.
@p4runtime_translation("example.org/port", string)
type bit<16> wide_port_t;

@p4runtime_translation("", string)
type bit<1> flag_t;

@controller_header("packet_in")
header packet_in_t {
    @id(1) port_id_t ingress_port;
    @id(2) port_id_t target;
    @id(3) router_interface_id_t from;
    @padding bit<2> pad;
}

@controller_header("packet_out")
header packet_out_t {
    @id(1) port_id_t egress_port;
    @id(2) bit<7> pad;
}

header name_t {
    vrf_id_t vrf;
    bit<6> more;
}

struct learnt_t {
    router_interface_id_t from;
    bit<32> address;
}

struct headers {
    packet_in_t packet_in;
    name_t name;
}

struct metadata {
    vrf_id_t vrf;
    nexthop_id_t nexthop;
    router_interface_id_t interface;
    port_id_t port;
    flag_t flag;
    bit<32> address;
}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    value_set<vrf_id_t>(4) known;
    state start {
        packet.extract(hdr.name);
        transition select(hdr.name.vrf) {
            known: accept;
            default: accept;
        }
    }
}

control V(inout headers hdr, inout metadata meta) {
    apply {}
}

control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    register<flag_t>(4) flags;
    counter(512, CounterType.packets) by_port;

    action set_nexthop(nexthop_id_t nexthop) {
        meta.nexthop = nexthop;
    }
    action set_interface(router_interface_id_t router_interface) {
        meta.interface = router_interface;
    }
    action set_port(port_id_t port, wide_port_t same) {
        standard.egress_spec = (bit<9>)port;
        meta.port = port;
    }
    action drop() {
        mark_to_drop(standard);
    }

    table routes {
        key = {
            meta.vrf: exact;
            meta.address: lpm;
        }
        actions = { set_nexthop; drop; }
        default_action = drop();
    }
    action_selector(HashAlgorithm.crc16, 64, 10) ways;
    table groups {
        key = {
            meta.interface: exact;
            meta.address: selector;
        }
        actions = { set_nexthop; }
        implementation = ways;
    }
    action_selector(HashAlgorithm.crc16, 64, 10) others;
    table numbered {
        key = {
            meta.interface: exact;
            meta.address: selector;
        }
        actions = { set_nexthop; }
        implementation = others;
    }
    table nexthops {
        key = { meta.nexthop: exact; }
        actions = { set_interface; drop; }
        default_action = drop();
    }
    table interfaces {
        key = { meta.interface: exact; }
        actions = { set_port; drop; }
        default_action = drop();
    }
    table filter {
        key = {
            meta.port: optional;
            meta.vrf: ternary;
            meta.interface: range;
        }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    table fixed {
        key = { meta.interface: exact; }
        actions = { set_interface; NoAction; }
        const entries = {
            (router_interface_id_t)1: set_interface((router_interface_id_t)2);
        }
        default_action = NoAction();
    }
    apply {
        flags.read(meta.flag, 0);
        routes.apply();
        groups.apply();
        numbered.apply();
        nexthops.apply();
        interfaces.apply();
        filter.apply();
        fixed.apply();
        by_port.count((bit<32>)(bit<9>)meta.port);
        digest<learnt_t>(1, { meta.interface, meta.address });
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (port_id_t)standard.ingress_port;
            hdr.packet_in.from = meta.interface;
        }
    }
}

control C(inout headers hdr, inout metadata meta) {
    apply {}
}

control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.name);
    }
}

V1Switch(P(), V(), ingress(), E(), C(), D()) main;
