// SPDX-License-Identifier: Apache-2.0
//
// The two ways in which a packet leaves the walk early: dropped, or handed to the CPU. Either
// way its reason is noted and counted, and no further step sees it.

#ifndef GATEWAY_VERDICTS_P4
#define GATEWAY_VERDICTS_P4

#include "metadata.p4"
#include "reasons.p4"

/// Packets and bytes dropped; the index is the drop reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) drops;

/// Packets and bytes handed to the CPU; the index is the punt reason.
Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS_AND_BYTES) punts;

const PortId_t CPU = (PortId_t) (PortIdUint_t) (InterfaceIdUint_t) PNA_PORT_CPU;

/// Drops the packet, here and now.
action drop(inout metadata_t meta, in drop_reason_t reason) {
    meta.drop_reason = reason;
    drops.count((bit<8>) reason);
    drop_packet();
    exit;
}

/// Hands the packet, as it came in, to the CPU. Steps that change headers stand behind the last
/// one that calls this.
action to_cpu(inout metadata_t meta, in punt_reason_t reason) {
    meta.punt_reason = reason;
    punts.count((bit<8>) reason);
    send_to_port(CPU);
    exit;
}

#endif
