// SPDX-License-Identifier: Apache-2.0
//
// Which address stands for a VM on the Internet, without any state? NPTv6 (RFC 6296) puts a prefix in
// the place of another one and changes one more word of 16 bits by a constant, so that the sum of all
// words stays the same. So no checksum of layer 4 changes, whatever the protocol, and fragments pass.
// The control plane computes the constant once for each prefix.
//
// The word is the one behind the prefix (bits 48 to 63), if the prefix has at most 48 bits (section 3.4).
// Behind a longer prefix it is the first word of the interface identifier that is not 0xffff (section
// 3.5). In ones' complement 0xffff and 0 are one number, so an address with 0xffff in this word has no
// counterpart, and a result of 0xffff is written as 0.
//
// An ICMPv6 error goes to the source of the packet that it quotes (RFC 4443, section 2.2), so the quoted
// address is that of the VM, too. It is replaced as well; the sum of the message stays the same again.

#ifndef GATEWAY_NPT_P4
#define GATEWAY_NPT_P4

#include "internet_v6.p4"
#include "metadata.p4"
#include "verdicts.p4"

control npt_step(inout headers_t hdr, inout metadata_t meta, in internet_v6_t internet) {
    ipv6_t  address;
    ipv6_t  quoted;
    bit<16> word;
    bit<17> sum;

    apply {
        address = meta.from_internet ? hdr.inner_ipv6.destination : hdr.inner_ipv6.source;

        // An authentication header protects the addresses (RFC 4302, section 3.3.3).
        if ((meta.extensions & EXTENSION_AUTHENTICATION) != 0) {
            drop(meta, drop_reason_t.nat_protocol);
        }
        if (meta.protocol == PROTOCOL_ICMPV6 && meta.l4_source < 128
            && meta.fragment != fragment_t.later && meta.fragment != fragment_t.known) {
            quoted = meta.from_internet ? hdr.quoted_ipv6.source : hdr.quoted_ipv6.destination;
            if (!hdr.quoted_ipv6.isValid() || quoted != address) {
                drop(meta, drop_reason_t.nat_quote);
            }
        }

        word = address[79:64];
        if (!internet.in_subnet) {
            word = address[63:48];
            if (word == 0xffff) {
                word = address[47:32];
                if (word == 0xffff) {
                    word = address[31:16];
                    if (word == 0xffff) {
                        word = address[15:0];
                    }
                }
            }
            // The subnet's routers, not a host (section 3.7).
            if (address[63:0] == 0) {
                drop(meta, drop_reason_t.npt_address);
            }
        }
        if (word == 0xffff) {
            drop(meta, drop_reason_t.npt_address);
        }
        sum = (bit<17>) word + (bit<17>) internet.adjustment;
        word = sum[15:0] + (bit<16>) sum[16:16];
        if (word == 0xffff) {
            word = 0;
        }

        if (internet.in_subnet) {
            address[79:64] = word;
        } else if (address[63:48] != 0xffff) {
            address[63:48] = word;
        } else if (address[47:32] != 0xffff) {
            address[47:32] = word;
        } else if (address[31:16] != 0xffff) {
            address[31:16] = word;
        } else {
            address[15:0] = word;
        }
        address[127:64] = address[127:64] & ~internet.mask | internet.prefix;

        if (meta.from_internet) {
            hdr.inner_ipv6.destination = address;
            if (hdr.quoted_ipv6.isValid()) {
                hdr.quoted_ipv6.source = address;
            }
        } else {
            hdr.inner_ipv6.source = address;
            if (hdr.quoted_ipv6.isValid()) {
                hdr.quoted_ipv6.destination = address;
            }
        }
    }
}

#endif
