// The packet's tenant comes from a table on the switch; the tenant's meter follows a
// table that the switch does not have. The packet returns to its port with the color.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header colours_t { bit<16> tenant; bit<8> colour; }

struct headers { ethernet_t ethernet; colours_t colours; }
struct metadata { bit<16> tenant; bit<8> colour; bit<9> back; }

parser Parse(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { packet.extract(h.ethernet); packet.extract(h.colours); transition accept; }
}

control Check(inout headers h, inout metadata m) { apply { } }
control Compute(inout headers h, inout metadata m) { apply { } }

control Decide(inout headers h, inout metadata m, inout standard_metadata_t s) {
    meter(1024, MeterType.packets) limit;
    action belongs_to(bit<16> tenant) { m.tenant = tenant; }
    table tenants {
        key = { h.ethernet.kind: exact; }
        actions = { belongs_to; }
        const default_action = belongs_to(0);
    }
    table below {
        key = { h.ethernet.destination: exact; }
        actions = { NoAction; }
    }
    apply {
        m.back = s.ingress_port;
        tenants.apply();
        below.apply();
        limit.execute_meter<bit<8>>((bit<32>) m.tenant, m.colour);
        h.colours.tenant = m.tenant;
        h.colours.colour = m.colour;
        s.egress_spec = m.back;
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }

control Deparse(packet_out packet, in headers h) {
    apply { packet.emit(h.ethernet); packet.emit(h.colours); }
}

V1Switch(Parse(), Check(), Decide(), Leave(), Compute(), Deparse()) main;
