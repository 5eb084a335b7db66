// SPDX-License-Identifier: Apache-2.0
//
// Is a port of a VM a backend of a service, and of which one? It is of one service, so that its
// answers have one address. The step is applied for both directions: does a packet of a backend need
// the address of the service, and does the backend of a connection still serve?

#ifndef GATEWAY_SERVICE_BACKEND_P4
#define GATEWAY_SERVICE_BACKEND_P4

#include "metadata.p4"

/// A port of a VM, as services see it.
struct backend_t {
    bool    is_known;   // is a backend
    bool    is_up;      // its connections live
    ipv4_t  address;    // of the service in its VPC; 0: it has none
    ipv4_t  public;     // of the service in the Internet; 0: it has none
    bit<16> port;       // of the service
}

control service_backend_step(in vpc_t vpc, in bit<8> protocol, in ipv4_t vm, in bit<16> vm_port,
                             inout backend_t backend) {
    /// A backend that keeps its connections, also if it takes no new ones.
    action serves(ipv4_t address, ipv4_t public, bit<16> port) {
        backend.is_known = true;
        backend.is_up = true;
        backend.address = address;
        backend.public = public;
        backend.port = port;
    }

    /// A backend that is down: its connections have ended.
    action is_down(ipv4_t address, ipv4_t public, bit<16> port) {
        backend.is_known = true;
        backend.address = address;
        backend.public = public;
        backend.port = port;
    }

    table members {
        key = {
            vpc:      exact @name("vpc");
            protocol: exact @name("protocol");
            vm:       exact @name("vm") @format(IPV4_ADDRESS);
            vm_port:  exact @name("port");
        }
        actions = { serves; is_down; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 262144;
    }

    apply {
        backend.is_known = false;
        backend.is_up = false;
        backend.address = 0;
        backend.public = 0;
        members.apply();
    }
}

#endif
