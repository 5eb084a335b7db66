// SPDX-License-Identifier: Apache-2.0
//
// Was the packet parsed without error? An error of the parser becomes a drop reason. In later
// steps, each header is complete and consistent in itself.

#ifndef GATEWAY_MALFORMED_P4
#define GATEWAY_MALFORMED_P4

#include "metadata.p4"
#include "parser.p4"

control malformed_step(in headers_t hdr,
                       inout metadata_t meta,
                       in pna_main_input_metadata_t istd) {
    drop_reason_t reason;

    apply {
        if (istd.parser_error != error.NoError) {
            reason = drop_reason_t.parser_limit;
            if (istd.parser_error == error.PacketTooShort) {
                if (hdr.vxlan.isValid()) {
                    reason = drop_reason_t.inner_truncated;
                } else {
                    reason = drop_reason_t.underlay_truncated;
                }
            } else if (istd.parser_error == error.OuterTruncated) {
                reason = drop_reason_t.underlay_truncated;
            } else if (istd.parser_error == error.OuterIpv4Header) {
                reason = drop_reason_t.underlay_ipv4_header;
            } else if (istd.parser_error == error.OuterIpv4Checksum) {
                reason = drop_reason_t.underlay_ipv4_checksum;
            } else if (istd.parser_error == error.OuterIpv6Header) {
                reason = drop_reason_t.underlay_ipv6_header;
            } else if (istd.parser_error == error.InnerIpv4Header) {
                reason = drop_reason_t.inner_ipv4_header;
            } else if (istd.parser_error == error.InnerIpv4Checksum) {
                reason = drop_reason_t.inner_ipv4_checksum;
            } else if (istd.parser_error == error.InnerIpv6Header) {
                reason = drop_reason_t.inner_ipv6_header;
            } else if (istd.parser_error == error.InnerIpv6Extension) {
                reason = drop_reason_t.inner_ipv6_extension;
            } else if (istd.parser_error == error.InnerHeadersTooLong) {
                reason = drop_reason_t.inner_headers_too_long;
            } else if (istd.parser_error == error.InnerSourceRoute) {
                reason = drop_reason_t.inner_source_route;
            } else if (istd.parser_error == error.InnerLength) {
                reason = drop_reason_t.inner_length;
            }
            // Headers behind plain IPv6 matter only if the packet is for a VM (internet_arrival.p4).
            // Packets for the gateway itself go to the CPU.
            if (!meta.one_pass_only && !hdr.vxlan.isValid() && hdr.outer_ipv6.isValid()
                && (istd.parser_error == error.InnerIpv6Extension
                    || istd.parser_error == error.InnerHeadersTooLong
                    || istd.parser_error == error.InnerSourceRoute
                    || istd.parser_error == error.InnerLength)) {
            } else {
                drop(meta, reason);
            }
        }
    }
}

#endif
