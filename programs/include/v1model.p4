// SPDX-License-Identifier: Apache-2.0
//
// v1model: the architecture of bmv2's `simple_switch`, which most published P4-16 programs are
// written for. Names, types and parameters are the interface that those programs expect; the
// comments say what each means on Terrace.
//
// A packet's way:
//
//   Parser -> VerifyChecksum -> Ingress -> [replication] -> Egress -> ComputeChecksum -> Deparser
//
// At the end of Ingress, the first of these that holds decides (a clone and a digest that were
// asked for happen in any case, before it):
//
//   1. resubmit was called             the packet as it came in is parsed again
//   2. mcast_grp != 0                  one copy for each (port, rid) of the group enters Egress
//   3. egress_spec == 511              dropped
//   4. else                            one packet enters Egress with egress_port = egress_spec
//
// At the end of Egress, after a clone that was asked for:
//
//   1. egress_spec == 511              dropped
//   2. recirculate was called          the deparsed packet enters Parser again
//   3. else                            sent on egress_port
//
// A packet is resubmitted or recirculated at most 32 times in all, then dropped.
//
// V1MODEL_VERSION, defined by a program before it includes this file, picks the interface: from
// 20200408 on, ports have a type name of their own and the index type of counters, meters and
// registers is a type parameter.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind {
    /// From the entry's low to its high value, both included. Priorities decide.
    range,
    /// All bits are equal, or the entry leaves the field out. Priorities decide.
    optional,
    /// Not compared: the field feeds the hash of the table's `action_selector`.
    selector
}

#if V1MODEL_VERSION >= 20200408
/// A port of the switch. 511 means "drop" in `egress_spec`.
typedef bit<9>  PortId_t;
#endif

/// What the architecture and the program tell each other about a packet. Fields are 0 when
/// the packet comes in, except where said otherwise. `@alias` holds the names under which
/// simple_switch knows a field.
@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    /// Where the packet came in. For a resubmitted or recirculated packet and for a clone: where
    /// the packet that it was made from came in.
    PortId_t    ingress_port;
    /// Written by the program: where the packet is to go; 511 drops it.
    PortId_t    egress_spec;
    /// In Egress: where the packet is going. Writing it has no effect on that.
    PortId_t    egress_port;
#else
    bit<9>      ingress_port;
    bit<9>      egress_spec;
    bit<9>      egress_port;
#endif
    /// Where this packet comes from: 0 a port, 1 a clone made in Ingress, 2 a clone made in
    /// Egress, 3 coalesced (never on Terrace), 4 recirculate, 5 replication, 6 resubmit.
    bit<32>     instance_type;
    /// The packet's length in bytes, as it was when Ingress (for Egress: when Egress) began.
    bit<32>     packet_length;
    /// In Egress: when the packet was queued, in microseconds.
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    /// In Egress: the queue's length in packets when this one was queued.
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    /// In Egress: microseconds spent in the queue.
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    /// In Egress: the queue's length in packets when this one left it.
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    /// When Ingress began, in microseconds since the engine started.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    /// When Egress began, in microseconds since the engine started. 0 in Ingress.
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    /// Written in Ingress: the multicast group to replicate to; 0 is none. A group that the
    /// control plane hasn't made has no members, so the packet goes nowhere.
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    /// In Egress: which copy of a replicated packet this is; the group's member says the number.
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    /// In Ingress: 1 if a `verify_checksum` found a mismatch.
    bit<1>  checksum_error;
    /// The parser's result. A packet that the parser rejected still enters Ingress, with the
    /// headers that were extracted before the error.
    error parser_error;
    /// Written in Ingress: the priority of the queue. Terrace has a single queue a port and
    /// carries the value along without acting on it.
    @alias("intrinsic_metadata.priority")
    bit<3> priority;
}

// ---------------------------------------------------------------------------------------------
// Counters, meters, registers
// ---------------------------------------------------------------------------------------------
// An index outside [0, size-1] is never an error: nothing is counted, metered or stored, and what
// would have been read is 0. Bytes are those of the packet as it was received, in Egress as well (as bmv2 has it).

/// What a counter counts.
enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

/// What a meter's rates and bursts are given in.
enum MeterType {
    packets,
    bytes
}

/// An array of counters: counted by the program, read and reset by the control plane.
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

/// One counter for each entry of the table that names this in its property `counters`. Each
/// packet that hits an entry is counted once, whether or not the action calls `count`. Packets
/// that miss aren't counted. An entry's counter starts at 0 when the entry is inserted and goes
/// on when the entry's action is changed.
extern direct_counter {
    direct_counter(CounterType type);

    /// Without effect of its own, see above.
    void count();
}

// Values that meters write as their result.
#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

/// An array of two-rate three-colour markers, RFC 2698, colour-blind. The control plane sets
/// a committed rate and burst and a peak rate and burst, in units of `type` (per second). A
/// meter that hasn't been configured says green.
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    /// `size` meters, unconfigured.
    meter(bit<32> size, MeterType type);

    /// Meters this packet and writes its colour to `result`, a `bit<W>` with W >= 2.
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

/// One meter for each entry of the table that names this in its property `meters`. Each packet
/// that hits an entry is metered once, before the action runs.
extern direct_meter<T> {
    direct_meter(MeterType type);

    /// In an action of that table: writes the colour of this packet to `result`, a `bit<W>` with
    /// W >= 2. After a miss it is green. All calls for one meter must name the same `result`.
    void read(out T result);
}

/// An array of values that the program and the control plane both read and write. All are 0
/// at first. A read or a write is atomic of its own; a block with `@atomic` is so as a whole.
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

/// Holds actions apart from a table's entries, so that several entries share one. It is named in
/// the table property `implementation`; `size` limits the number of members.
extern action_profile {
    action_profile(bit<32> size);
}

// ---------------------------------------------------------------------------------------------
// Hashes and random numbers
// ---------------------------------------------------------------------------------------------

/// Writes a number in `lo`..`hi`, both included and each as likely, to `result`; if lo > hi,
/// writes `lo`. An engine's seed can be set, so that a run repeats.
extern void random<T>(out T result, in T lo, in T hi);

/// Hands `data`, as it is now, to the control plane as one message of the digest list that is
/// named after the type of `data`. Only in Ingress. `receiver` is without effect.
extern void digest<T>(in bit<32> receiver, in T data);

/// Input of each is the concatenation of the data's fields in network bit order, padded with 0
/// bits at the end to a whole number of bytes (csum16 and xor16: to 16 bits).
enum HashAlgorithm {
    /// CRC-32 of IEEE 802.3: polynomial 0x04c11db7, reflected, start and final xor all ones.
    crc32,
    /// A CRC-32 whose polynomial the control plane can change; it starts as `crc32`.
    crc32_custom,
    /// CRC-16/ARC: polynomial 0x8005, reflected, start 0.
    crc16,
    /// A CRC-16 whose polynomial the control plane can change; it starts as `crc16`.
    crc16_custom,
    /// A number that has nothing to do with the data.
    random,
    /// The data themselves; if they are wider than 64 bits, the first 64.
    identity,
    /// The Internet checksum, RFC 1071.
    csum16,
    /// The exclusive or of the data's 16-bit words.
    xor16
}

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();

/// Sets `egress_spec` to 511 and `mcast_grp` to 0. A later assignment to either takes that back.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/// `result` = `base` + (H mod `max`), where H is the hash of `data`; if `max` is 0, `base`.
/// The sum is cut to the width of `result`. `data` is a tuple or struct of bit, int and varbit.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

/// An action profile with groups of members. A table entry points at a member or a group; of
/// a group, the member at (H mod number of members) acts, where H is the hash by `algorithm` of
/// the key fields of kind `selector`, cut to `outputWidth` bits, and members stand in order of their
/// numbers. `size` limits the members.
/// A group without members acts as a miss: the table's default action runs.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

/// Which way a clone is made: from Ingress or from Egress; it always enters Egress.
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

/// Only in VerifyChecksum. If `condition` holds and the checksum of `data` by `algo` isn't
/// `checksum`, sets `standard_metadata.checksum_error` to 1. `data` is a tuple or list of bit,
/// int and varbit, in all a multiple of the width of `checksum`.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// Only in ComputeChecksum. If `condition` holds, sets `checksum` to the checksum of `data`.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// `verify_checksum` over `data` followed by all bytes that the parser left unread.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// `update_checksum` over `data` followed by all bytes that the parser left unread.
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// ---------------------------------------------------------------------------------------------
// Copies and second passes
// ---------------------------------------------------------------------------------------------
// Where one of these is called several times in one control, the last call counts. A call takes
// effect at the end of that control. The forms with `index` keep the user metadata fields that
// carry `@field_list(..., index, ...)`, with the values that they have at the end of the control;
// all other user metadata start anew.

/// A copy to the port or ports of mirror session `session`; nothing is kept. A session that the
/// control plane hasn't made makes no copy. I2E: the packet as it was when Ingress began,
/// parsed anew, instance_type 1. E2E: the packet as it is at the end of Egress, instance_type 2.
extern void clone(in CloneType type, in bit<32> session);

@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

/// Only in Ingress: instead of going on, the packet enters Parser again as it came in.
extern void resubmit_preserving_field_list(bit<8> index);

@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

/// Only in Egress: instead of being sent, the deparsed packet enters Parser again.
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/// `clone` that keeps metadata.
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

/// Cuts the packet to `length` bytes when it is sent: headers and payload together, counted
/// after the deparser. Longer than the packet: without effect.
extern void truncate(in bit<32> length);

// ---------------------------------------------------------------------------------------------
// For the developer
// ---------------------------------------------------------------------------------------------

/// If `check` is false, the packet is dropped, with the reason assert_failed and the place in the
/// source. (simple_switch ends its process instead.)
extern void assert(in bool check);

/// The same at run time; tools that verify programs may take `check` as given.
extern void assume(in bool check);

/// Adds a line to the packet's explanation. Each `{}` in `msg` stands for the next field of `data`.
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
