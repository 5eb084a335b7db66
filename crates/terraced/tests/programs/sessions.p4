// Packets add entries: tests of sessions. `result` becomes 1 if the packet added its entry, 2 if it hit one,
// 3 if its entry could not be added.
#include <core.p4>
#include <pna.p4>

#ifndef SIZE
#define SIZE size = 4194304;
#endif

header flow_h {
    bit<32>  src;
    bit<32>  dst;
    bit<16>  sport;
    bit<16>  dport;
    bit<8>   protocol;
    bit<8>   result;
    bit<16>  pad;
    bit<128> source6;
}

struct headers_t { flow_h flow; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.flow); transition accept; }
}

control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control Main(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
             inout pna_main_output_metadata_t ostd) {
    action known(bit<32> address, bit<16> port) { hdr.flow.result = 2; }
    action learn() {
        bool added = add_entry(action_name = "known", action_params = { hdr.flow.dst, hdr.flow.dport },
                               expire_time_profile_id = (ExpireTimeProfileId_t) 1);
        if (added) { hdr.flow.result = 1; } else { hdr.flow.result = 3; }
    }
    table flows {
        key = {
            hdr.flow.src: exact;
            hdr.flow.dst: exact;
            hdr.flow.sport: exact;
            hdr.flow.dport: exact;
            hdr.flow.protocol: exact;
        }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        SIZE
    }
    action seen() { }
    action see() { add_entry("seen", {}, (ExpireTimeProfileId_t) 0); }
    table sources6 {
        key = { hdr.flow.source6: exact @format(IPV6_ADDRESS); }
        actions = { @tableonly seen; @defaultonly see; }
        const default_action = see();
        add_on_miss = true;
    }
    apply {
        flows.apply();
        if (hdr.flow.source6 != 0) { sources6.apply(); }
        send_to_port((PortId_t) 1);
    }
}

control Deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.flow); }
}

PNA_NIC(Parse(), Pre(), Main(), Deparse()) main;
