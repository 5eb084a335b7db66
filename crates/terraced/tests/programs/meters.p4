// Shows the results of meters: a packet returns to its port with the colors of an indexed meter and of
// its entry's meter. With AGES entries have idle times, which native code does not support; WIDER
// makes another program with the same meters and entries; BYTES changes the unit of the indexed meter.
#include <core.p4>
#include <v1model.p4>

#ifdef BYTES
#define UNIT MeterType.bytes
#else
#define UNIT MeterType.packets
#endif

header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header colours_t { bit<8> indexed; bit<8> own; bit<8> program; }

struct headers { ethernet_t ethernet; colours_t colours; }
struct metadata { }

parser Parse(packet_in packet, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { packet.extract(h.ethernet); packet.extract(h.colours); transition accept; }
}

control Check(inout headers h, inout metadata m) { apply { } }
control Compute(inout headers h, inout metadata m) { apply { } }

control Decide(inout headers h, inout metadata m, inout standard_metadata_t s) {
    meter(4, UNIT) limit;
    direct_meter<bit<8>>(MeterType.packets) own_limit;
    action take() { own_limit.read(h.colours.own); }
    table limited {
        key = { h.ethernet.kind: exact; }
        actions = { take; NoAction; }
        meters = own_limit;
#ifdef AGES
        support_timeout = true;
#endif
    }
    apply {
        limit.execute_meter<bit<8>>((bit<32>) h.ethernet.destination, h.colours.indexed);
        limited.apply();
#ifdef WIDER
        h.colours.program = 2;
#else
        h.colours.program = 1;
#endif
        s.egress_spec = s.ingress_port;
    }
}

control Leave(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }

control Deparse(packet_out packet, in headers h) {
    apply { packet.emit(h.ethernet); packet.emit(h.colours); }
}

V1Switch(Parse(), Check(), Decide(), Leave(), Compute(), Deparse()) main;
