// SPDX-License-Identifier: Apache-2.0
//
// What does an ICMP error say in the other version of IP? Both headers and the quotation change their
// version, and type, code, MTU and pointer are those of the tables in RFC 7915, sections 4.2 and 5.2. An
// error without a counterpart is dropped by name. Bytes behind 8 bytes of quoted layer 4 are not read: the
// checksum is corrected by the difference of all others.
//
// A router keeps its address, behind the prefix, so that traceroute shows it. Behind the well-known
// prefix there are only addresses of the Internet (RFC 6052, section 3.1).

#ifndef GATEWAY_NAT64_ERROR_P4
#define GATEWAY_NAT64_ERROR_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

/// Packets and bytes of VMs with IPv6 to and from hosts with IPv4; 0: from VMs, 1: to VMs. Bytes as received.
Counter<bit<64>, bit<1>>(2, PNA_CounterType_t.PACKETS_AND_BYTES) nat64_passed;

/// 64:ff9b::/96 (RFC 6052, section 2.1).
const bit<96> WELL_KNOWN_PREFIX = 0x0064ff9b0000000000000000;

/// The smallest MTU of a path over IPv6 (RFC 8200, section 5).
const bit<16> MIN_IPV6_MTU = 1280;

/// From a VM to a host.
control nat64_error_to_host_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat,
                                 out bit<16> checksum) {
    InternetChecksum() sum;
    InternetChecksum() quoted_sum;
    InternetChecksum() quoted_ip_sum;
    bit<8>  type;
    bit<8>  code;
    bit<16> first;        // the word behind the checksum, and the next one
    bit<16> second;
    bit<8>  pointer;
    bit<16> quoted_l4;    // checksum

    apply {
        // ---- message (section 5.2) ----------------------------------------------------------------
        type = ICMP_UNREACHABLE;
        code = 1;
        first = 0;
        second = 0;
        if (hdr.l4_icmp.type == ICMPV6_UNREACHABLE) {
            if (hdr.l4_icmp.code == 1) {
                code = 10;
            } else if (hdr.l4_icmp.code == 4) {
                code = 3;
            } else if (hdr.l4_icmp.code > 4) {
                drop(meta, drop_reason_t.nat64_icmp);
            }
        } else if (hdr.l4_icmp.type == ICMPV6_TOO_BIG) {
            code = 4;
            second = hdr.l4_icmp.sequence - 20;
            if (hdr.l4_icmp.identifier != 0) {
                second = 0xffff;
            } else if (hdr.l4_icmp.sequence < MIN_IPV6_MTU) {
                second = MIN_IPV6_MTU - 20;
            }
        } else if (hdr.l4_icmp.type == ICMPV6_TIME_EXCEEDED) {
            type = ICMP_TIME_EXCEEDED;
            code = hdr.l4_icmp.code;
        } else if (hdr.l4_icmp.code == 1) {   // an unknown next header
            code = 2;
        } else {
            type = ICMP_PARAMETER_PROBLEM;
            code = 0;
            pointer = hdr.l4_icmp.sequence[7:0];
            if (hdr.l4_icmp.code != 0 || hdr.l4_icmp.identifier != 0 || hdr.l4_icmp.sequence >= 40
                || pointer == 2 || pointer == 3) {
                drop(meta, drop_reason_t.nat64_icmp);
            }
            if (pointer >= 24) {
                pointer = 16;   // destination
            } else if (pointer >= 8) {
                pointer = 12;   // source
            } else if (pointer == 7) {
                pointer = 8;    // TTL
            } else if (pointer == 6) {
                pointer = 9;    // protocol
            } else if (pointer >= 4) {
                pointer = 2;    // length
            }
            first = pointer ++ 8w0;
        }
        sum.subtract({ hdr.l4_icmp.checksum, hdr.l4_icmp.type, hdr.l4_icmp.code, hdr.l4_icmp.identifier,
                       hdr.l4_icmp.sequence });
        sum.subtract({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination, hdr.inner_ipv6.payload_length,
                       (bit<16>) PROTOCOL_ICMPV6 });
        sum.add({ type, code, first, second });

        // ---- quoted layer 4 -----------------------------------------------------------------------
        if (hdr.quoted_echo.isValid()) {
            quoted_sum.subtract({ hdr.quoted_echo.checksum, hdr.quoted_echo.type, hdr.quoted_echo.code,
                                  nat.local_port, hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination,
                                  hdr.quoted_ipv6.payload_length, (bit<16>) PROTOCOL_ICMPV6 });
            quoted_sum.add({ ICMP_ECHO_REPLY, 8w0, nat.new_port });
            quoted_l4 = quoted_sum.get();
            sum.subtract({ hdr.quoted_echo.type, hdr.quoted_echo.code, hdr.quoted_echo.checksum, nat.local_port });
            sum.add({ ICMP_ECHO_REPLY, 8w0, quoted_l4, nat.new_port });
            hdr.quoted_echo.type = ICMP_ECHO_REPLY;
            hdr.quoted_echo.code = 0;
            hdr.quoted_echo.checksum = quoted_l4;
            hdr.quoted_echo.identifier = nat.new_port;
        } else {
            sum.subtract({ nat.local_port });
            sum.add({ nat.new_port });
            if (nat.protocol == PROTOCOL_UDP && hdr.quoted_l4.checksum != 0) {
                quoted_sum.subtract({ hdr.quoted_l4.checksum, hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination,
                                      nat.local_port });
                quoted_sum.add({ nat.remote, nat.new_address, nat.new_port });
                quoted_l4 = quoted_sum.get();
                if (quoted_l4 == 0) {
                    quoted_l4 = 0xffff;
                }
                sum.subtract({ hdr.quoted_l4.checksum });
                sum.add({ quoted_l4 });
                hdr.quoted_l4.checksum = quoted_l4;
            }
            hdr.quoted_l4.destination = nat.new_port;
        }

        // ---- quoted header ------------------------------------------------------------------------
        sum.subtract({ hdr.quoted_ipv6.version, hdr.quoted_ipv6.dscp, hdr.quoted_ipv6.ecn,
                       hdr.quoted_ipv6.flow_label, hdr.quoted_ipv6.payload_length,
                       hdr.quoted_ipv6.next_header, hdr.quoted_ipv6.hop_limit,
                       hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination });
        hdr.quoted_ipv4.setValid();
        hdr.quoted_ipv4.version = 4;
        hdr.quoted_ipv4.ihl = 5;
        hdr.quoted_ipv4.dscp = hdr.quoted_ipv6.dscp;
        hdr.quoted_ipv4.ecn = hdr.quoted_ipv6.ecn;
        hdr.quoted_ipv4.total_length = hdr.quoted_ipv6.payload_length + 20;
        hdr.quoted_ipv4.identification = 0;
        hdr.quoted_ipv4.reserved = 0;
        hdr.quoted_ipv4.dont_fragment = 1;
        hdr.quoted_ipv4.more_fragments = 0;
        hdr.quoted_ipv4.fragment_offset = 0;
        hdr.quoted_ipv4.ttl = hdr.quoted_ipv6.hop_limit;
        hdr.quoted_ipv4.protocol = nat.protocol;
        hdr.quoted_ipv4.source = nat.remote;
        hdr.quoted_ipv4.destination = nat.new_address;
        // A valid header adds nothing to the sum of the message.
        quoted_ip_sum.add({ hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.dscp,
                            hdr.quoted_ipv4.ecn, hdr.quoted_ipv4.total_length,
                            hdr.quoted_ipv4.identification, hdr.quoted_ipv4.reserved,
                            hdr.quoted_ipv4.dont_fragment, hdr.quoted_ipv4.more_fragments,
                            hdr.quoted_ipv4.fragment_offset, hdr.quoted_ipv4.ttl,
                            hdr.quoted_ipv4.protocol, hdr.quoted_ipv4.source,
                            hdr.quoted_ipv4.destination });
        hdr.quoted_ipv4.checksum = quoted_ip_sum.get();
        hdr.quoted_ipv6.setInvalid();

        checksum = sum.get();
        hdr.l4_icmp.type = type;
        hdr.l4_icmp.code = code;
        hdr.l4_icmp.checksum = checksum;
        hdr.l4_icmp.identifier = first;
        hdr.l4_icmp.sequence = second;
    }
}

/// From a host, or a router on the way to it, to a VM. `inner_ipv6` is the new header already.
control nat64_error_to_vm_step(inout headers_t hdr, inout metadata_t meta, in nat_flow_t nat, in bit<96> prefix) {
    InternetChecksum() sum;
    InternetChecksum() quoted_sum;
    bit<8>  type;
    bit<8>  code;
    bit<16> second;       // the second word behind the checksum; the first one is 0
    bit<8>  pointer;
    bit<16> quoted_l4;    // checksum

    apply {
        // Private addresses (RFC 1918; RFC 6598) are not of the Internet.
        if (prefix == WELL_KNOWN_PREFIX
            && (hdr.inner_ipv4.source[31:24] == 10 || hdr.inner_ipv4.source[31:20] == 0xac1
                || hdr.inner_ipv4.source[31:16] == 0xc0a8 || hdr.inner_ipv4.source[31:22] == 0x191)) {
            drop(meta, drop_reason_t.nat64_address);
        }

        // ---- message (section 4.2) ----------------------------------------------------------------
        type = ICMPV6_UNREACHABLE;
        code = 0;
        second = 0;
        if (hdr.l4_icmp.type == ICMP_UNREACHABLE) {
            if (hdr.l4_icmp.code == 2) {   // an unknown protocol: the next header is
                type = ICMPV6_PARAMETER_PROBLEM;
                code = 1;
                second = 6;
            } else if (hdr.l4_icmp.code == 3) {
                code = 4;
            } else if (hdr.l4_icmp.code == 4) {
                type = ICMPV6_TOO_BIG;
                second = hdr.l4_icmp.sequence;
                // A router that does not know RFC 1191: the next lower one of its section 7.1. Lower ones
                // than 1,492 all are 1,280 over IPv6.
                if (second == 0) {
                    if (hdr.quoted_ipv4.total_length > 32000) {
                        second = 32000;
                    } else if (hdr.quoted_ipv4.total_length > 17914) {
                        second = 17914;
                    } else if (hdr.quoted_ipv4.total_length > 8166) {
                        second = 8166;
                    } else if (hdr.quoted_ipv4.total_length > 4352) {
                        second = 4352;
                    } else if (hdr.quoted_ipv4.total_length > 2002) {
                        second = 2002;
                    } else if (hdr.quoted_ipv4.total_length > 1492) {
                        second = 1492;
                    }
                }
                if (second < MIN_IPV6_MTU - 20) {
                    second = MIN_IPV6_MTU;
                } else if (second > 0xffff - 20) {
                    second = 0xffff;
                } else {
                    second = second + 20;
                }
            } else if (hdr.l4_icmp.code == 9 || hdr.l4_icmp.code == 10 || hdr.l4_icmp.code == 13
                       || hdr.l4_icmp.code == 15) {
                code = 1;
            } else if (hdr.l4_icmp.code >= 14) {
                drop(meta, drop_reason_t.nat64_icmp);
            }
        } else if (hdr.l4_icmp.type == ICMP_TIME_EXCEEDED) {
            type = ICMPV6_TIME_EXCEEDED;
            code = hdr.l4_icmp.code;
        } else {
            type = ICMPV6_PARAMETER_PROBLEM;
            pointer = hdr.l4_icmp.identifier[15:8];
            if (hdr.l4_icmp.code != 0 && hdr.l4_icmp.code != 2
                || pointer >= 4 && pointer <= 7 || pointer == 10 || pointer == 11 || pointer >= 20) {
                drop(meta, drop_reason_t.nat64_icmp);
            }
            if (pointer >= 16) {
                pointer = 24;   // destination
            } else if (pointer >= 12) {
                pointer = 8;    // source
            } else if (pointer == 9) {
                pointer = 6;    // next header
            } else if (pointer == 8) {
                pointer = 7;    // hop limit
            } else if (pointer >= 2) {
                pointer = 4;    // length
            }
            second = (bit<16>) pointer;
        }
        hdr.inner_ipv6.payload_length = hdr.inner_ipv6.payload_length + 20;   // the quoted header
        // The quoted IPv4 header is valid, and so has no part in the sum (nat_quote.p4).
        sum.subtract({ hdr.l4_icmp.checksum, hdr.l4_icmp.type, hdr.l4_icmp.code, hdr.l4_icmp.identifier,
                       hdr.l4_icmp.sequence });
        sum.add({ type, code, second });
        sum.add({ hdr.inner_ipv6.source, hdr.inner_ipv6.destination, hdr.inner_ipv6.payload_length,
                  (bit<16>) PROTOCOL_ICMPV6 });

        // ---- quoted header ------------------------------------------------------------------------
        hdr.quoted_ipv6.setValid();
        hdr.quoted_ipv6.version = 6;
        hdr.quoted_ipv6.dscp = hdr.quoted_ipv4.dscp;
        hdr.quoted_ipv6.ecn = hdr.quoted_ipv4.ecn;
        hdr.quoted_ipv6.flow_label = 0;
        hdr.quoted_ipv6.payload_length = hdr.quoted_ipv4.total_length - 20;
        hdr.quoted_ipv6.next_header = hdr.quoted_echo.isValid() ? PROTOCOL_ICMPV6 : nat.protocol;
        hdr.quoted_ipv6.hop_limit = hdr.quoted_ipv4.ttl;
        hdr.quoted_ipv6.source = hdr.inner_ipv6.destination;
        hdr.quoted_ipv6.destination = prefix ++ nat.remote;
        sum.add({ hdr.quoted_ipv6.version, hdr.quoted_ipv6.dscp, hdr.quoted_ipv6.ecn,
                  hdr.quoted_ipv6.flow_label, hdr.quoted_ipv6.payload_length,
                  hdr.quoted_ipv6.next_header, hdr.quoted_ipv6.hop_limit,
                  hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination });

        // ---- quoted layer 4 -----------------------------------------------------------------------
        if (hdr.quoted_echo.isValid()) {
            if (hdr.quoted_echo.type != ICMP_ECHO_REQUEST) {
                drop(meta, drop_reason_t.nat_quote);
            }
            quoted_sum.subtract({ hdr.quoted_echo.checksum, hdr.quoted_echo.type, hdr.quoted_echo.code,
                                  nat.local_port });
            quoted_sum.add({ ICMPV6_ECHO_REQUEST, 8w0, nat.new_port, hdr.quoted_ipv6.source,
                             hdr.quoted_ipv6.destination, hdr.quoted_ipv6.payload_length,
                             (bit<16>) PROTOCOL_ICMPV6 });
            quoted_l4 = quoted_sum.get();
            sum.subtract({ hdr.quoted_echo.type, hdr.quoted_echo.code, hdr.quoted_echo.checksum, nat.local_port });
            sum.add({ ICMPV6_ECHO_REQUEST, 8w0, quoted_l4, nat.new_port });
            hdr.quoted_echo.type = ICMPV6_ECHO_REQUEST;
            hdr.quoted_echo.code = 0;
            hdr.quoted_echo.checksum = quoted_l4;
            hdr.quoted_echo.identifier = nat.new_port;
        } else {
            sum.subtract({ nat.local_port });
            sum.add({ nat.new_port });
            if (nat.protocol == PROTOCOL_UDP && hdr.quoted_l4.checksum != 0) {
                quoted_sum.subtract({ hdr.quoted_l4.checksum, hdr.quoted_ipv4.source, hdr.quoted_ipv4.destination,
                                      nat.local_port });
                quoted_sum.add({ hdr.quoted_ipv6.source, hdr.quoted_ipv6.destination, nat.new_port });
                quoted_l4 = quoted_sum.get();
                if (quoted_l4 == 0) {
                    quoted_l4 = 0xffff;
                }
                sum.subtract({ hdr.quoted_l4.checksum });
                sum.add({ quoted_l4 });
                hdr.quoted_l4.checksum = quoted_l4;
            }
            hdr.quoted_l4.source = nat.new_port;
        }
        hdr.quoted_ipv4.setInvalid();

        hdr.l4_icmp.type = type;
        hdr.l4_icmp.code = code;
        hdr.l4_icmp.checksum = sum.get();
        hdr.l4_icmp.identifier = 0;
        hdr.l4_icmp.sequence = second;
    }
}

#endif
