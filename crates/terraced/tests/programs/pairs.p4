// Packets add sessions of two entries, each with a port of a pool and a share of a quota: tests of take-overs. `result` becomes 1 if the
// packet added its session, 2 if it hit an entry, 3 if it got no port, 4 if the session could not be added, 5 if its
// owner has no share left. Owner 1 has the addresses from 128 on, and two shares. `port` is
// the session's port.
#include <core.p4>
#include <pna.p4>
#include <terrace.p4>

header flow_h {
    bit<8>   inbound;
    bit<8>   result;
    bit<16>  port;
    bit<32>  address;
    bit<448> pad;
}

struct headers_t { flow_h flow; }
struct metadata_t { }

struct flow_key_t {
    bit<8>  inbound;
    bit<32> address;
    bit<16> port;
}

struct port_t { bit<16> port; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.flow); transition accept; }
}

control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) {
    apply { }
}

control Main(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
             inout pna_main_output_metadata_t ostd) {
    PortPool(1, 16, 1, 0) ports;
    EntryQuota(2) quota;

    action known(bit<16> port) {
        hdr.flow.result = 2;
        hdr.flow.port = port;
        restart_expire_timer();
    }
    action open() {
        bit<32> owner = (bit<32>) hdr.flow.address[7:7];
        bool has_share = quota.take(owner, owner == 1 ? 32w2 : 32w1000);
        PortLease_t lease = ports.take(0, 1, 3, 1, 0, hdr.flow.address);
        hdr.flow.result = 3;
        if (!has_share) {
            hdr.flow.result = 5;
        } else if (lease.status == PortPoolStatus_t.TAKEN) {
            port_t value = { lease.port };
            flow_key_t twin = { 1, 0, lease.port };
            bool added = add_entry_pair("known", value, twin, "known", value, (ExpireTimeProfileId_t) 1);
            hdr.flow.result = added ? 8w1 : 8w4;
            hdr.flow.port = lease.port;
        }
    }
    table sessions {
        key = {
            hdr.flow.inbound: exact;
            hdr.flow.address: exact;
            hdr.flow.port: exact;
        }
        actions = { @tableonly known; @defaultonly open; }
        const default_action = open();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 1024;
    }
    apply {
        sessions.apply();
        send_to_port((PortId_t) 1);
    }
}

control Deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.flow); }
}

PNA_NIC(Parse(), Pre(), Main(), Deparse()) main;
