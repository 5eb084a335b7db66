// Two families with a prefix and an exact table each, an ACL, and code that transforms must not change.

#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>   family;
    bit<24>  vni;
    bit<32>  v4;
    bit<128> v6;
    bit<16>  port;
    bit<32>  route;
    bit<48>  vm;
    bit<32>  mark;
    bit<8>   rule;
}

struct headers_t { probe_t probe; }
struct metadata_t { bit<24> to; bit<1> found; }

parser p(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.probe); transition accept; }
}

control c(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action to(bit<24> vni, bit<32> route) { meta.to = vni; hdr.probe.route = route; }
    action by(bit<8> rule, bit<24> vni) { meta.to = vni; hdr.probe.rule = rule; }
    action stay() { meta.to = hdr.probe.vni; hdr.probe.route = 1; }
    action lost() { mark_to_drop(sm); exit; }

    table route_v4 {
        key = { hdr.probe.vni: exact; hdr.probe.v4: lpm; }
        actions = { to; by; stay; lost; }
        const default_action = lost();
        size = 4096;
    }
    table route_v6 {
        key = { hdr.probe.vni: exact; hdr.probe.v6: lpm; }
        actions = { to; by; stay; lost; }
        const default_action = lost();
        size = 4096;
    }

    action at(bit<48> vm) { hdr.probe.vm = vm; meta.found = 1; }
    action unknown(bit<32> mark) { hdr.probe.mark = hdr.probe.mark ^ mark; }

    table vm_v4 {
        key = { meta.to: exact; hdr.probe.v4: exact; }
        actions = { at; @defaultonly unknown; }
        const default_action = unknown(5);
        size = 4096;
    }
    table vm_v6 {
        key = { meta.to: exact; hdr.probe.v6: exact; }
        actions = { at; @defaultonly unknown; }
        const default_action = unknown(5);
        const entries = {
            (1, 0x20010db8000000000000000000000001): at(0x10001);
            (1, 0x20010db8000000000000000000000002): at(0x10002);
            (2, 0x20010db8000000000000000000000001): at(0x10003);
        }
        size = 4096;
    }
    table host_v6 {
        key = { meta.to: exact; hdr.probe.v6: exact; }
        actions = { at; unknown; lost; }
        default_action = unknown(9);
        size = 4096;
    }

    action verdict(bit<8> rule) { hdr.probe.rule = rule; }
    table acl {
        key = { hdr.probe.vni: exact; hdr.probe.v4: ternary; hdr.probe.port: range; }
        actions = { verdict; lost; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        bit<32> before = hdr.probe.v4 ^ hdr.probe.mark;
        if (hdr.probe.family == 4) {
            bit<32> twice = before + (bit<32>) hdr.probe.vni;
            if (route_v4.apply().hit) {
                hdr.probe.mark = twice;
            }
        } else {
            bit<32> low = (bit<32>) hdr.probe.v6 - before;
            switch (route_v6.apply().action_run) {
                to: { hdr.probe.mark = low; }
                default: { hdr.probe.mark = before; }
            }
        }
        if (hdr.probe.family == 4) {
            vm_v4.apply();
        } else {
            vm_v6.apply();
        }
        if (meta.found == 0) {
            host_v6.apply();
        }
        acl.apply();
        sm.egress_spec = (bit<9>) (hdr.probe.route & 0xff);
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }

control d(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(p(), c(), ingress(), egress(), c(), d()) main;
