// SPDX-License-Identifier: Apache-2.0
//
// Which service has the port? The route has led to the address of a service, and the address can have
// a service for each port. A packet from the Internet has found its service in `forwards`
// (nat_forward.p4).
//
// An echo request to the address is answered by the gateway itself, because it has no port, and
// because its answer must not depend on one backend.

#ifndef GATEWAY_SERVICE_PORT_P4
#define GATEWAY_SERVICE_PORT_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

control service_port_step(inout headers_t hdr, inout metadata_t meta, inout nat_flow_t nat) {
    /// A service with this number of slots. `by_client`: all connections of a client's address have
    /// one backend. All services of the VPC together may have `max_connections`.
    action service(bit<32> slots, bit<1> by_client, bit<32> max_connections) {
        nat.service_vpc = meta.service_vpc;
        nat.service = nat.local;
        nat.service_port = nat.local_port;
        nat.slots = slots;
        nat.max_connections = max_connections;
        nat.by_client = by_client == 1;
        nat.kind = nat_kind_t.service;
    }

    action no_service() {
        drop_and_tell(hdr, meta, drop_reason_t.service_port, icmp_cause_t.no_service, 0);
    }

    table services {
        key = {
            meta.service_vpc: exact @name("vpc");
            nat.local:        exact @name("address") @format(IPV4_ADDRESS);
            nat.protocol:     exact @name("protocol");
            nat.local_port:   exact @name("port");
        }
        actions = { service; @defaultonly no_service; }
        const default_action = no_service();
        size = 65536;
    }

    apply {
        services.apply();
    }
}

#endif
