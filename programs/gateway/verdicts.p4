// SPDX-License-Identifier: Apache-2.0
//
// Actions that end the processing of a packet: drop, or send to the CPU. Both record and count the
// reason; later steps are skipped.

#ifndef GATEWAY_VERDICTS_P4
#define GATEWAY_VERDICTS_P4

#include "metadata.p4"
#include "reasons.p4"

/// Dropped packets and bytes; the index is the drop reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) drops;

/// Packets and bytes sent to the CPU; the index is the punt reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) punts;

const PortId_t CPU = (PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU;

/// Drops the packet immediately.
action drop(inout metadata_t meta, in drop_reason_t reason) {
    meta.drop_reason = reason;
    drops.count((bit<8>) reason);
    drop_packet();
    exit;
}

/// Sends the unchanged packet to the CPU. Therefore, all steps that change headers follow the last
/// step that calls this action.
action to_cpu(inout metadata_t meta, in punt_reason_t reason) {
    meta.punt_reason = reason;
    punts.count((bit<8>) reason);
    send_to_port(CPU);
    exit;
}

#endif
