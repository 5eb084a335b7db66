// SPDX-License-Identifier: Apache-2.0
//
// Which ports does a fragment have? Only the first fragment of a datagram has them, so it notes the
// datagram for 30 seconds, and later fragments get its ports, or its ICMP type, code and identifier.
// From here on a step that decides by ports sees a later fragment as a packet of its flow
// (docs/decisions/0055-*). Only fragments apply the step. Those of VPCs without state pass it as they
// are (`datagram_limits`), as do those to and from elastic addresses of such VPCs.
//
// A later fragment that comes before the first one stays without ports (`fragment_t.later`). Nothing is
// dropped for that here, because not all packets need ports. Fragments are not held, because a packet
// cannot wait in this program.
//
// The first of several "first" fragments counts: another one with other ports is dropped, because later
// fragments cannot tell which of both they belong to. So are fragments of TCP that would cut, or change,
// its header (RFC 1858; RFC 3128, section 2).

#ifndef GATEWAY_FRAGMENTS_P4
#define GATEWAY_FRAGMENTS_P4

#include "metadata.p4"
#include "nat_flow.p4"
#include "verdicts.p4"

// Expire time profiles. TABLES.md has the times.
const ExpireTimeProfileId_t DATAGRAM       = (ExpireTimeProfileId_t) 8;
const ExpireTimeProfileId_t DATAGRAM_ENDED = (ExpireTimeProfileId_t) 9;

/// Offset of the first fragment behind a TCP header without options, in units of 8 bytes.
const bit<13> BEHIND_TCP = 3;

/// Owners of datagrams: all VPCs that have a number, and the public addresses by their lower 16 bits.
/// No VPC has such a number (TABLES.md).
#define DATAGRAM_OWNERS 1048576
const bit<4> PUBLIC_OWNER = 0xf;

/// Most datagrams from the Internet to one public address, and to all of them: a sixteenth and a half
/// of the table, so that the Internet leaves room for the datagrams of VMs.
const bit<32> MAX_OF_ADDRESS = 16384;
const bit<32> MAX_OF_INTERNET = 131072;

/// Destinations have one of these many spaces of identifications, by a hash. A released number rests for
/// 60 seconds, because a receiver keeps an incomplete datagram for as long (RFC 8200, section 4.5).
#define ID_SPACES 256
#define ID_REST_SECONDS 60
/// All blocks of numbers of a space.
const bit<32> ID_BLOCKS = 1008;

/// Parameters of `of_datagram`.
struct datagram_t {
    bit<8>  protocol;
    bit<16> l4_source;
    bit<16> l4_destination;
    bit<16> identifier;
    bit<16> sent_identification;
}

control fragments_step(in headers_t hdr, inout metadata_t meta, in nat_flow_t nat) {
    // One for each table, because packets of both versions then need no order among each other.
    EntryQuota(DATAGRAM_OWNERS) datagrams_of_v4;
    EntryQuota(DATAGRAM_OWNERS) datagrams_of_v6;
    EntryQuota(1)               datagrams_of_internet;
    PortPool(ID_SPACES, ID_SPACES, 1, ID_REST_SECONDS) identifications;
    Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc;

    vpc_t   vpc;              // 0 from the Internet
    bit<20> owner;
    bit<32> max_datagrams;    // of the owner; 0: fragments are not tracked
    bit<13> offset;
    bool    is_last;
    bit<32> space;            // of identifications
    bit<32> start;            // of the search for a free one

    /// Fragments from the VPC are tracked, and it has at most this many datagrams at one time.
    action limit_datagrams(bit<32> datagrams) {
        max_datagrams = datagrams;
    }

    table datagram_limits {
        key = { meta.vpc: exact @name("vpc"); }
        actions = { limit_datagrams; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1048576;
    }

    /// A fragment of a noted datagram. Its last fragment shortens the time that is left, because a
    /// fast sender needs the identification again (RFC 6864, section 4.3).
    action of_datagram(bit<8> protocol, bit<16> l4_source, bit<16> l4_destination, bit<16> identifier,
                       bit<16> sent_identification) {
        if (meta.fragment == fragment_t.later) {
            meta.protocol = protocol;
            meta.l4_source = l4_source;
            meta.l4_destination = l4_destination;
            meta.identifier = identifier;
            meta.fragment = fragment_t.known;
        } else if (meta.protocol != protocol || meta.l4_source != l4_source
                   || meta.l4_destination != l4_destination || meta.identifier != identifier) {
            drop(meta, drop_reason_t.fragment_header);
        }
        meta.has_datagram = true;
        meta.sent_identification = sent_identification;
        update_expire_info(is_last, true, DATAGRAM_ENDED);
    }

    /// The first fragment notes the datagram, if there is room and its owner may have one more.
    action note_datagram_v4() {
        if (meta.fragment == fragment_t.first) {
            bool has_share = datagrams_of_v4.take((bit<32>) owner, max_datagrams);
            if (!has_share) {
                drop(meta, drop_reason_t.fragment_quota);
            }
            // VMs that share an address could send datagrams with one identification (RFC 7857,
            // section 10). So each has another one while it is noted, which a NAT gives it. Without a
            // free one it keeps its own.
            meta.sent_identification = hdr.inner_ipv4.identification;
            if (meta.from_internet) {
                has_share = datagrams_of_internet.take(0, MAX_OF_INTERNET);
                if (!has_share) {
                    drop(meta, drop_reason_t.fragment_quota);
                }
            } else {
                PortLease_t lease = identifications.take(space, 1, space, ID_BLOCKS, 0, start);
                if (lease.status == PortPoolStatus_t.TAKEN) {
                    meta.sent_identification = lease.port;
                }
            }
            datagram_t data = { meta.protocol, meta.l4_source, meta.l4_destination, meta.identifier,
                                meta.sent_identification };
            bool is_added = add_entry("of_datagram", data, DATAGRAM);
            if (!is_added) {
                drop(meta, drop_reason_t.fragment_quota);
            }
            meta.has_datagram = true;
        }
    }

    /// As `note_datagram_v4`.
    action note_datagram_v6() {
        if (meta.fragment == fragment_t.first) {
            bool has_share = datagrams_of_v6.take((bit<32>) owner, max_datagrams);
            if (!has_share) {
                drop(meta, drop_reason_t.fragment_quota);
            }
            datagram_t data = { meta.protocol, meta.l4_source, meta.l4_destination, meta.identifier, 0 };
            bool is_added = add_entry("of_datagram", data, DATAGRAM);
            if (!is_added) {
                drop(meta, drop_reason_t.fragment_quota);
            }
            meta.has_datagram = true;
        }
    }

    /// RFC 791: addresses, protocol and identification. The tenant and the kind of sender keep
    /// datagrams apart that others send with the same addresses.
    table datagrams_v4 {
        key = {
            vpc:                           exact @name("vpc");
            (bit<2>) meta.sender:          exact @name("sender");
            hdr.inner_ipv4.source:         exact @name("source") @format(IPV4_ADDRESS);
            hdr.inner_ipv4.destination:    exact @name("destination") @format(IPV4_ADDRESS);
            hdr.inner_ipv4.identification: exact @name("identification");
            hdr.inner_ipv4.protocol:       exact @name("protocol");
        }
        actions = { @tableonly of_datagram; @defaultonly note_datagram_v4; }
        const default_action = note_datagram_v4();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 262144;
    }

    /// RFC 8200, section 4.5: without the protocol, which later fragments need not have.
    table datagrams_v6 {
        key = {
            vpc:                        exact @name("vpc");
            (bit<2>) meta.sender:       exact @name("sender");
            hdr.inner_ipv6.source:      exact @name("source") @format(IPV6_ADDRESS);
            hdr.inner_ipv6.destination: exact @name("destination") @format(IPV6_ADDRESS);
            meta.identification:        exact @name("identification");
        }
        actions = { @tableonly of_datagram; @defaultonly note_datagram_v6; }
        const default_action = note_datagram_v6();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 262144;
    }

    apply {
        meta.has_datagram = false;
        max_datagrams = 0;
        vpc = meta.vpc;
        owner = meta.vpc;
        // Packets of sessions, forwards and services from the Internet always need ports.
        if (meta.from_internet && nat.kind != nat_kind_t.elastic && nat.kind != nat_kind_t.routed) {
            max_datagrams = MAX_OF_ADDRESS;
        } else {
            datagram_limits.apply();
        }
        if (meta.from_internet && hdr.inner_ipv4.isValid()) {
            vpc = 0;
            owner = PUBLIC_OWNER ++ hdr.inner_ipv4.destination[15:0];
            if (max_datagrams > MAX_OF_ADDRESS) {
                max_datagrams = MAX_OF_ADDRESS;
            }
        }

        if (max_datagrams != 0) {
            offset = hdr.inner_ipv4.fragment_offset;
            is_last = hdr.inner_ipv4.more_fragments == 0;
            if (hdr.inner_ipv6.isValid()) {
                offset = meta.fragment_offset;
                is_last = meta.is_last_fragment;
            }
            if (meta.protocol == PROTOCOL_TCP) {
                if (meta.fragment == fragment_t.later) {
                    if (offset < BEHIND_TCP) {
                        drop(meta, drop_reason_t.fragment_header);
                    }
                } else if (!hdr.l4_rest.isValid() && meta.extensions == 0
                           && (hdr.inner_ipv4.ihl == 5 || hdr.inner_ipv6.isValid())) {
                    drop(meta, drop_reason_t.fragment_header);
                }
            }
            meta.identifier = hdr.l4_icmp.identifier;
            if (hdr.inner_ipv4.isValid()) {
                space = crc.get_hash({ hdr.inner_ipv4.destination }) & (ID_SPACES - 1);
                start = crc.get_hash({ hdr.inner_ipv4.source, hdr.inner_ipv4.identification });
                datagrams_v4.apply();
            } else if (hdr.inner_ipv6.next_header == PROTOCOL_IPV6_FRAG) {
                // RFC 6946: a datagram in one fragment is whole.
                if (meta.fragment == fragment_t.first && is_last) {
                    meta.has_datagram = true;
                } else {
                    datagrams_v6.apply();
                }
            }
        }
    }
}

#endif
