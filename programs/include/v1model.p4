// SPDX-License-Identifier: Apache-2.0
//
// v1model: the architecture of bmv2's `simple_switch`, the target of most published P4-16 programs.
// Names, types and parameters are the interface that those programs expect. The comments define the
// behaviour on Terrace.
//
// Path of a packet:
//
//   Parser -> VerifyChecksum -> Ingress -> [replication] -> Egress -> ComputeChecksum -> Deparser
//
// At the end of Ingress, the requested clone and digest are executed. Then the first condition that
// holds decides:
//
//   1. resubmit was called             the unchanged packet is parsed again
//   2. mcast_grp != 0                  one copy for each (port, rid) of the group enters Egress
//   3. egress_spec == 511              dropped
//   4. otherwise                       one packet enters Egress with egress_port = egress_spec
//
// At the end of Egress, after a requested clone:
//
//   1. egress_spec == 511              dropped
//   2. recirculate was called          the deparsed packet enters Parser again
//   3. otherwise                       sent on egress_port
//
// A packet is dropped after 32 resubmissions and recirculations in total.
//
// V1MODEL_VERSION, which a program defines before it includes this file, selects the interface.
// From 20200408 on, ports have a type name of their own, and the index type of counters, meters and
// registers is a type parameter.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind {
    /// From the entry's low to its high value, both inclusive. The priority decides.
    range,
    /// All bits are equal, or the entry omits the field. The priority decides.
    optional,
    /// Not compared: the field is an input of the hash of the table's `action_selector`.
    selector
}

#if V1MODEL_VERSION >= 20200408
/// A port of the switch. 511 means "drop" in `egress_spec`.
typedef bit<9>  PortId_t;
#endif

/// Data that the architecture and the program exchange about a packet. Fields are 0 at
/// arrival unless stated otherwise. `@alias` has the names of a field in
/// simple_switch.
@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    /// Input port. A resubmitted or recirculated packet and a clone have the input port of the
    /// original packet.
    PortId_t    ingress_port;
    /// Written by the program: the output port; 511 drops the packet.
    PortId_t    egress_spec;
    /// In Egress: the output port. Writing it has no effect.
    PortId_t    egress_port;
#else
    bit<9>      ingress_port;
    bit<9>      egress_spec;
    bit<9>      egress_port;
#endif
    /// Origin of this packet: 0 a port, 1 a clone made in Ingress, 2 a clone made in Egress, 3
    /// coalesced (never on Terrace), 4 recirculation, 5 replication, 6 resubmission.
    bit<32>     instance_type;
    /// Length of the packet in bytes at the start of Ingress (in Egress: at the start of Egress).
    bit<32>     packet_length;
    /// In Egress: time of queueing, in microseconds.
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    /// In Egress: length of the queue in packets when this packet was queued.
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    /// In Egress: time in the queue, in microseconds.
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    /// In Egress: length of the queue in packets when this packet left it.
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    /// Start of Ingress, in microseconds since the start of the engine.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    /// Start of Egress, in microseconds since the start of the engine. 0 in Ingress.
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    /// Written in Ingress: the multicast group for replication; 0: none. A group that the control
    /// plane has not created has no members, so the packet is dropped.
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    /// In Egress: number of this copy, as configured for the member of the group.
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    /// In Ingress: 1 if a `verify_checksum` found a mismatch.
    bit<1>  checksum_error;
    /// Result of the parser. A packet that the parser rejected enters Ingress with the headers that
    /// were extracted before the error.
    error parser_error;
    /// Written in Ingress: the priority of the queue. Terrace carries the value without using it,
    /// because a port has a single queue.
    @alias("intrinsic_metadata.priority")
    bit<3> priority;
}

// ---------------------------------------------------------------------------------------------
// Counters, meters, registers
// ---------------------------------------------------------------------------------------------
// An index outside [0, size-1] is not an error: the operation has no effect, and a read returns 0.
// Byte counts use the length of the packet at arrival, also in Egress (as in bmv2).

/// Units of a counter.
enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

/// Units of a meter's rates and bursts.
enum MeterType {
    packets,
    bytes
}

/// An array of counters: the program counts, the control plane reads and resets.
extern counter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    /// `size` counters, all 0.
    counter(bit<32> size, CounterType type);

    /// Adds this packet to the counter at `index`.
#if V1MODEL_VERSION >= 20200408
    void count(in I index);
#else
    void count(in bit<32> index);
#endif
}

/// One counter for each entry of the table with this object as its property `counters`. Each packet
/// that hits an entry is counted once, whether or not the action calls `count`. Packets that miss
/// are not counted. The counter of an entry is 0 when the entry is inserted, and continues when the
/// action of the entry is modified.
extern direct_counter {
    direct_counter(CounterType type);

    /// Has no effect of its own (see above).
    void count();
}

// Results of meters.
#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

/// An array of two-rate three-color markers (RFC 2698), color-blind. The control plane sets
/// committed and peak rates and bursts in units of `type` (rates per second). An unconfigured meter
/// returns green.
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    /// `size` meters, unconfigured.
    meter(bit<32> size, MeterType type);

    /// Meters this packet and writes its color to `result`, a `bit<W>` with W >= 2.
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

/// One meter for each entry of the table with this object as its property `meters`. Each packet
/// that hits an entry is metered once, before the action runs.
extern direct_meter<T> {
    direct_meter(MeterType type);

    /// In an action of that table: writes the color of this packet to `result`, a `bit<W>` with W
    /// >= 2; after a miss, green. All calls of one meter must have the same `result`.
    void read(out T result);
}

/// An array of values that the program and the control plane read and write, initially 0. Each
/// access is atomic; a block with `@atomic` is atomic as a whole.
#if V1MODEL_VERSION >= 20200408
extern register<T, I>
#else
extern register<T>
#endif
{
    /// `size` values.
    register(bit<32> size);

    /// Copies the value at `index` to `result`.
    @noSideEffects
#if V1MODEL_VERSION >= 20200408
    void read(out T result, in I index);
#else
    void read(out T result, in bit<32> index);
#endif

    /// Stores `value` at `index`.
#if V1MODEL_VERSION >= 20200408
    void write(in I index, in T value);
#else
    void write(in bit<32> index, in T value);
#endif
}

// ---------------------------------------------------------------------------------------------
// Indirect actions
// ---------------------------------------------------------------------------------------------

/// Stores actions outside of table entries, so that several entries share one. The table property
/// `implementation` refers to it; `size` limits the number of members.
extern action_profile {
    action_profile(bit<32> size);
}

// ---------------------------------------------------------------------------------------------
// Hashes and random numbers
// ---------------------------------------------------------------------------------------------

/// Writes a uniformly distributed number from `lo` to `hi`, both inclusive, to `result`; `lo` if lo
/// > hi. A configurable seed makes runs reproducible.
extern void random<T>(out T result, in T lo, in T hi);

/// Sends a copy of `data` to the control plane, as a message of the digest list with the name of
/// the type of `data`. Only in Ingress. `receiver` has no effect.
extern void digest<T>(in bit<32> receiver, in T data);

/// The input is the concatenation of the fields in network bit order, padded with 0 bits at the end
/// to a whole number of bytes (csum16 and xor16: to 16 bits).
enum HashAlgorithm {
    /// CRC-32 of IEEE 802.3: polynomial 0x04c11db7, reflected, initial and final XOR all ones.
    crc32,
    /// CRC-32 with a polynomial that the control plane can change; initially `crc32`.
    crc32_custom,
    /// CRC-16/ARC: polynomial 0x8005, reflected, initial value 0.
    crc16,
    /// CRC-16 with a polynomial that the control plane can change; initially `crc16`.
    crc16_custom,
    /// A number that is independent of the data.
    random,
    /// The data, or their first 64 bits if they are wider.
    identity,
    /// The Internet checksum, RFC 1071.
    csum16,
    /// The exclusive or of the 16-bit words of the data.
    xor16
}

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();

/// Sets `egress_spec` to 511 and `mcast_grp` to 0. A later assignment to either reverts this.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/// `result` = `base` + (H mod `max`), where H is the hash of `data`; `base` if `max` is 0. The sum
/// is truncated to the width of `result`. `data` is a tuple or struct of bit, int and varbit.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

/// An action profile with groups of members. A table entry refers to a member or a group. In a
/// group, the member at (H mod number of members) is selected, where H is the hash by `algorithm`
/// of the key fields of kind `selector`, truncated to `outputWidth` bits. Members are in the order
/// of their ids. `size` limits the number of members.
/// A group without members acts like a miss: the table's default action runs.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

/// Origin of a clone: Ingress or Egress. The clone always enters Egress.
enum CloneType {
    I2E,
    E2E
}

// ---------------------------------------------------------------------------------------------
// Checksums
// ---------------------------------------------------------------------------------------------

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    /// The Internet checksum of `data`.
    bit<16> get<D>(in D data);
}

/// Only in VerifyChecksum. If `condition` holds and the checksum of `data` by `algo` differs from
/// `checksum`, sets `standard_metadata.checksum_error` to 1. `data` is a tuple or list of bit, int
/// and varbit; its total width is a multiple of the width of `checksum`.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// Only in ComputeChecksum. If `condition` holds, sets `checksum` to the checksum of `data`.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// `verify_checksum` over `data` followed by all bytes that the parser did not read.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// `update_checksum` over `data` followed by all bytes that the parser did not read.
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// ---------------------------------------------------------------------------------------------
// Copies and second passes
// ---------------------------------------------------------------------------------------------
// If a control calls one of these several times, the last call counts. A call takes effect at the
// end of the control. The variants with `index` keep the user metadata fields with
// `@field_list(..., index, ...)`, with their values at the end of the control. Other user metadata
// is reinitialised.

/// Copies the packet to the ports of mirror session `session`, without metadata. A session that the
/// control plane has not created makes no copy. I2E: the packet as at the start of Ingress, parsed
/// again, instance_type 1. E2E: the packet as at the end of Egress, instance_type 2.
extern void clone(in CloneType type, in bit<32> session);

@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

/// Only in Ingress: the unchanged packet enters Parser again and leaves Ingress.
extern void resubmit_preserving_field_list(bit<8> index);

@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

/// Only in Egress: the deparsed packet enters Parser again and is not sent.
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/// `clone` with metadata.
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

/// Truncates the sent packet to `length` bytes, headers and payload together, after the deparser.
/// Has no effect on shorter packets.
extern void truncate(in bit<32> length);

// ---------------------------------------------------------------------------------------------
// For the developer
// ---------------------------------------------------------------------------------------------

/// If `check` is false, drops the packet with the reason assert_failed and the source location.
/// (simple_switch exits instead.)
extern void assert(in bool check);

/// Behaves like `assert` at run time; program verifiers may assume `check`.
extern void assume(in bool check);

/// Adds a line to the packet's trace. Each `{}` in `msg` is replaced by the next field of `data`.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// ---------------------------------------------------------------------------------------------
// The architecture
// ---------------------------------------------------------------------------------------------
// M is a struct; H is a struct of headers, header stacks, header unions and structs of such.

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);

/// Only calls to verify_checksum and verify_checksum_with_payload.
control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);

/// Only calls to update_checksum and update_checksum_with_payload.
control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);

/// Only calls to packet_out.emit.
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep
                       );

#endif  // _V1_MODEL_P4_
