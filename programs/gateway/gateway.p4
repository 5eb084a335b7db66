// SPDX-License-Identifier: Apache-2.0
//
// The gateway: connects the virtual networks (VPCs) of a cloud's tenants with each other, with
// their own data centres and with other regions. A VM's server sends its packet here in VXLAN; the
// gateway finds out where the VM's peer is and sends the packet on in VXLAN.
//
// This file is the list of what is decided about a packet, in order; each decision is a file.
// README.md walks through it, TABLES.md describes the tables for whoever fills them.

#include <core.p4>
#include <pna.p4>

#include "headers.p4"
#include "reasons.p4"
#include "metadata.p4"
#include "verdicts.p4"
#include "parser.p4"
#include "malformed.p4"
#include "classify.p4"
#include "vxlan_checks.p4"
#include "inner_checks.p4"
#include "tenant.p4"
#include "policy_routing.p4"
#include "routing.p4"
#include "acl.p4"
#include "vm_nc.p4"
#include "remote.p4"
#include "inner_link.p4"
#include "flow_hash.p4"
#include "underlay.p4"
#include "inner_rewrite.p4"
#include "encap.p4"
#include "deparser.p4"

control gateway(inout headers_t hdr,
                inout metadata_t meta,
                in pna_main_input_metadata_t istd,
                inout pna_main_output_metadata_t ostd) {
    malformed_step()                         malformed;
    classify_step()                          classify;
    vxlan_checks_step()                      vxlan_checks;
    inner_checks_step()                      inner_checks;
    tenant_step()                            tenancy;
    policy_routing_step()                    policy_routing;
    routing_step()                           routing;
    acl_step(drop_reason_t.acl_denied_out)   acl_out;
    acl_step(drop_reason_t.acl_denied_in)    acl_in;
    vm_nc_step()                             vm_nc;
    remote_step()                            remote_end;
    inner_link_step()                        inner_link;
    flow_hash_step()                         flow_hash;
    underlay_step()                          underlay;
    inner_rewrite_step()                     inner_rewrite;
    encap_step()                             encap;

    // A step that drops the packet or hands it to the CPU ends the walk (see verdicts.p4).
    apply {
        // Is it sound, and a tenant's packet?
        malformed.apply(hdr, meta, istd);
        if (hdr.vxlan.isValid()) {
            vxlan_checks.apply(hdr, meta);
            inner_checks.apply(hdr, meta);
        }
        classify.apply(hdr, meta, istd);

        // Whose is it, where does it want to go, and may it?
        tenancy.apply(hdr, meta);
        policy_routing.apply(hdr, meta);
        flow_hash.apply(hdr, meta);   // here, because on a chip it then waits for no table
        routing.apply(hdr, meta);
        // What a remote sends to the VPC's own VMs doesn't leave the VPC.
        if (meta.sender != sender_t.remote || meta.scope != scope_t.local) {
            acl_out.apply(hdr, meta, meta.vpc);
        }
        acl_in.apply(hdr, meta, meta.in_list);

        // At which tunnel end point is that?
        if (meta.scope == scope_t.idc || meta.scope == scope_t.cross_region) {
            remote_end.apply(hdr, meta);
        } else if (meta.scope != scope_t.internet) {
            vm_nc.apply(hdr, meta);
        }

        // Was the frame for us, and what becomes of it?
        inner_link.apply(hdr, meta);
        if (meta.scope == scope_t.internet) {
            to_cpu(meta, punt_reason_t.internet);
        }
        inner_rewrite.apply(hdr, meta);

        // How does it get there?
        underlay.apply(hdr, meta);
        encap.apply(hdr, meta);
    }
}

/// Runs before the main block, on devices that decrypt there. The gateway doesn't.
control gateway_pre(in headers_t hdr,
                    inout metadata_t meta,
                    in pna_pre_input_metadata_t istd,
                    inout pna_pre_output_metadata_t ostd) {
    apply { }
}

PNA_NIC(gateway_parser(), gateway_pre(), gateway(), gateway_deparser()) main;
