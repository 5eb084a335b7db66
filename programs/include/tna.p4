// SPDX-License-Identifier: Apache-2.0
//
// TNA, the architecture of Intel's Tofino, as far as Terrace generates programs for it: names,
// types and constants of its open specification. Terrace checks generated programs against this
// file before the chip's compiler gets them. Terrace does not run TNA programs.
//
// Path of a packet:
//
//   ingress parser -> ingress -> ingress deparser -> traffic manager -> egress parser -> egress ->
//   egress deparser
//
// Metadata does not pass from ingress to egress. Headers carry the values that egress needs.

#ifndef __TNA_P4__
#define __TNA_P4__

#include <core.p4>

typedef bit<9>  PortId_t;
typedef bit<16> MulticastGroupId_t;
typedef bit<5>  QueueId_t;
typedef bit<3>  MirrorType_t;
typedef bit<10> MirrorId_t;
typedef bit<3>  ResubmitType_t;
typedef bit<3>  DigestType_t;
typedef bit<16> ReplicationId_t;
typedef bit<16> L1ExclusionId_t;
typedef bit<9>  L2ExclusionId_t;

/// Bits of port metadata between the intrinsic metadata and the packet.
const bit<32> PORT_METADATA_SIZE = 32w64;

/// Bits of `parser_err`.
const bit<16> PARSER_ERROR_OK          = 16w0x0000;
const bit<16> PARSER_ERROR_NO_MATCH    = 16w0x0001;
const bit<16> PARSER_ERROR_PARTIAL_HDR = 16w0x0002;

match_kind {
    range,
    selector,
    atcam_partition_index
}

enum CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }
enum MeterType_t { PACKETS, BYTES }
enum bit<8> MeterColor_t { GREEN = 0, YELLOW = 1, RED = 3 }
enum HashAlgorithm_t { IDENTITY, RANDOM, XOR8, XOR16, XOR32, CRC8, CRC16, CRC32, CRC64, CUSTOM }
enum SelectorMode_t { FAIR, RESILIENT }

// ---------------------------------------------------------------------------------------------
// Intrinsic metadata
// ---------------------------------------------------------------------------------------------

/// Bytes before a packet in the ingress parser.
header ingress_intrinsic_metadata_t {
    bit<1>   resubmit_flag;
    bit<1>   _pad1;
    bit<2>   packet_version;
    bit<3>   _pad2;
    PortId_t ingress_port;
    bit<48>  ingress_mac_tstamp;
}

struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct ingress_intrinsic_metadata_for_deparser_t {
    /// Bit 0: no unicast copy; all bits: the packet is dropped.
    bit<3>         drop_ctl;
    DigestType_t   digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t   mirror_type;
}

struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t           ucast_egress_port;
    bit<1>             bypass_egress;
    bit<1>             deflect_on_drop;
    bit<3>             ingress_cos;
    QueueId_t          qid;
    bit<3>             icos_for_copy_to_cpu;
    bit<1>             copy_to_cpu;
    bit<2>             packet_color;
    bit<1>             disable_ucast_cutthru;
    bit<1>             enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;
    MulticastGroupId_t mcast_grp_b;
    bit<13>            level1_mcast_hash;
    bit<13>            level2_mcast_hash;
    L1ExclusionId_t    level1_exclusion_id;
    L2ExclusionId_t    level2_exclusion_id;
    bit<16>            rid;
}

/// Bytes before a packet in the egress parser.
header egress_intrinsic_metadata_t {
    bit<7>    _pad0;
    PortId_t  egress_port;
    bit<5>    _pad1;
    bit<19>   enq_qdepth;
    bit<6>    _pad2;
    bit<2>    enq_congest_stat;
    bit<14>   _pad3;
    bit<18>   enq_tstamp;
    bit<5>    _pad4;
    bit<19>   deq_qdepth;
    bit<6>    _pad5;
    bit<2>    deq_congest_stat;
    bit<8>    app_pool_congest_stat;
    bit<14>   _pad6;
    bit<18>   deq_timedelta;
    bit<16>   egress_rid;
    bit<7>    _pad7;
    bit<1>    egress_rid_first;
    bit<3>    _pad8;
    QueueId_t egress_qid;
    bit<5>    _pad9;
    bit<3>    egress_cos;
    bit<7>    _pad10;
    bit<1>    deflection_flag;
    bit<16>   pkt_length;
}

struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp;
    bit<32> global_ver;
    bit<16> parser_err;
}

struct egress_intrinsic_metadata_for_deparser_t {
    bit<3>       drop_ctl;
    MirrorType_t mirror_type;
    bit<1>       coalesce_flush;
    bit<7>       coalesce_length;
}

struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
    bit<1> update_delay_on_tx;
}

// ---------------------------------------------------------------------------------------------
// Externs
// ---------------------------------------------------------------------------------------------

/// The Internet checksum. In parsers, `verify` returns true if the sum is wrong. In deparsers,
/// `update` returns the sum over the data.
extern Checksum {
    Checksum();
    void add<T>(in T data);
    void subtract<T>(in T data);
    bool verify();
    void subtract_all_and_deposit<T>(out T residual);
    bit<16> get();
    bit<16> update<T>(in T data, @optional in bool zeros_as_ones);
}

extern Hash<W> {
    Hash(HashAlgorithm_t algo);
    W get<D>(in D data);
}

extern Random<W> {
    Random();
    W get();
}

extern Counter<W, I> {
    Counter(bit<32> size, CounterType_t type);
    void count(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectCounter<W> {
    DirectCounter(CounterType_t type);
    void count(@optional in bit<32> adjust_byte_count);
}

extern Meter<I> {
    Meter(bit<32> size, MeterType_t type);
    bit<8> execute(in I index, in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectMeter {
    DirectMeter(MeterType_t type);
    bit<8> execute(in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(@optional in bit<32> adjust_byte_count);
}

extern Register<T, I> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    T read(in I index);
    T write(in I index, in T value);
}

/// Operation of a stateful ALU on an element of a register, in one step.
extern RegisterAction<T, I, U> {
    RegisterAction(Register<T, I> reg);
    U execute(in I index);
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv);
}

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode, bit<32> max_group_size, bit<32> num_groups);
}

extern Atcam {
    Atcam(@optional bit<32> number_partitions);
}

extern Mirror {
    Mirror(MirrorType_t mirror_type);
    void emit(in MirrorId_t session_id);
    void emit<T>(in MirrorId_t session_id, in T hdr);
}

extern Resubmit {
    Resubmit(ResubmitType_t resubmit_type);
    void emit();
    void emit<T>(in T hdr);
}

extern Digest<T> {
    Digest(DigestType_t digest_type);
    void pack(in T data);
}

// ---------------------------------------------------------------------------------------------
// Blocks
// ---------------------------------------------------------------------------------------------

parser IngressParserT<H, M>(packet_in pkt, out H hdr, out M ig_md, out ingress_intrinsic_metadata_t ig_intr_md);

control IngressT<H, M>(inout H hdr, inout M ig_md,
                       in ingress_intrinsic_metadata_t ig_intr_md,
                       in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                       inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                       inout ingress_intrinsic_metadata_for_tm_t ig_tm_md);

control IngressDeparserT<H, M>(packet_out pkt, inout H hdr, in M metadata,
                               in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md);

parser EgressParserT<H, M>(packet_in pkt, out H hdr, out M eg_md, out egress_intrinsic_metadata_t eg_intr_md);

control EgressT<H, M>(inout H hdr, inout M eg_md,
                      in egress_intrinsic_metadata_t eg_intr_md,
                      in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                      inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                      inout egress_intrinsic_metadata_for_output_port_t eg_oport_md);

control EgressDeparserT<H, M>(packet_out pkt, inout H hdr, in M metadata,
                              in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md);

package Pipeline<IH, IM, EH, EM>(IngressParserT<IH, IM> ingress_parser,
                                 IngressT<IH, IM> ingress,
                                 IngressDeparserT<IH, IM> ingress_deparser,
                                 EgressParserT<EH, EM> egress_parser,
                                 EgressT<EH, EM> egress,
                                 EgressDeparserT<EH, EM> egress_deparser);

package Switch<IH0, IM0, EH0, EM0>(Pipeline<IH0, IM0, EH0, EM0> pipe0);

#endif  // __TNA_P4__
