// SPDX-License-Identifier: Apache-2.0
//
// PNA, the Portable NIC Architecture. Terrace's own programs use it, because NICs and DPUs
// support it, and because it has tables to which the data plane adds entries, and entries that
// expire.
//
// PNA has two interfaces, because the specification changed after programs were written:
//
//   <pna.p4>        four blocks, with a direction and a pass number, plus additions of version 0.7
//                   of the specification: the named hash algorithms, `AUTO_DELETE`, `is_net_port`,
//                   `add_entry_if`, `update_expire_info` and `set_entry_expire_time_if`.
//   <bmv2/pna.p4>   the current interface: three blocks, without PreControl. It defines
//                   PNA_THREE_BLOCKS and includes this file; `#ifdef` marks each difference.
//
// Path of a packet:
//
//   [PreControl ->] MainParser -> MainControl -> MainDeparser
//
// PreControl sees no headers, because no parser precedes it. It exists for inline decryption, which
// Terrace does not have: it runs, and its output is ignored. A packet that the parser rejects
// enters MainControl with the headers that were extracted before the error and with the error in
// `istd.parser_error`.
//
// At the end of MainDeparser, the requested mirror copies are made. Then the last call of one of
// these functions determines the verdict:
//
//   send_to_port(p)    sent on p; dropped with the reason unknown_port if p does not exist
//   drop_packet()      dropped
//   neither            dropped with the reason no_destination
//
// recirculate() replaces all three: the packet enters the main block again. A packet is dropped
// after 7 recirculations, because the pass number has three bits. If drop_packet() was the last
// verdict, the packet is dropped and counted with its reason, and what enters the main block again
// is another packet, made of it (an ICMP error, for example).
//
// Engines find the reason for a verdict by name. A field `drop_reason` of the user metadata, of an
// enum `drop_reason_t` with an underlying type, has the reason for a drop. `punt_reason` (or
// `cpu_reason`) of `punt_reason_t` (`cpu_reason_t`) has the reason for a packet to the CPU. Traces
// and metrics show the names of the members; 0 means "none given". Both enums share one set of
// numbers.
//
// A switch has one pass of packets. A program that recirculates packets can ask for this by a bool
// `one_pass_only` of its user metadata, which it only reads. It is false, except in the version of
// the program for a switch, which has true wherever the program reads it. On each path to
// recirculate(), that version has to have a verdict.

#ifndef __PNA_P4__
#define __PNA_P4__

#include <core.p4>

// ---------------------------------------------------------------------------------------------
// Types
// ---------------------------------------------------------------------------------------------
// Each quantity has up to four type names. `XUint_t` is plain bits, for arithmetic. `X_t` is a
// distinct type that cannot be mixed with others by accident; the control-plane API uses its name.
// The `InHeader` variants are for fields of packet headers between data plane and controller: whole
// bytes, as wide as any target needs.

/// A network port or a vport, as configured in the node.
typedef bit<32> PortIdUint_t;
@p4runtime_translation("p4.org/pna/v1/PortId_t", 32)
type PortIdUint_t PortId_t;

/// A port or a reserved destination such as PNA_PORT_CPU.
typedef bit<32> InterfaceIdUint_t;
@p4runtime_translation("p4.org/pna/v1/InterfaceId_t", 32)
type InterfaceIdUint_t InterfaceId_t;

/// A group of (port, instance) pairs.
typedef bit<32> MulticastGroupUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastGroup_t", 32)
type MulticastGroupUint_t MulticastGroup_t;

/// Mirror session: destination and contents of a copy. 0 is reserved for the architecture.
typedef bit<16> MirrorSessionIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionId_t", 16)
type MirrorSessionIdUint_t MirrorSessionId_t;

/// Slot of a requested copy: 0 to 3 on Terrace.
typedef bit<8> MirrorSlotIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotId_t", 8)
type MirrorSlotIdUint_t MirrorSlotId_t;

/// Class of service for the queue.
typedef bit<8> ClassOfServiceUint_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;

/// Length of a packet in bytes.
typedef bit<16> PacketLengthUint_t;
@p4runtime_translation("p4.org/pna/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;

/// Number of a copy of a replicated packet.
typedef bit<16> MulticastInstanceUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstance_t", 16)
type MulticastInstanceUint_t MulticastInstance_t;

/// Nanoseconds since the start of the engine.
typedef bit<64> TimestampUint_t;
@p4runtime_translation("p4.org/pna/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;

/// Number that the data plane assigns to a flow.
typedef bit<32> FlowIdUint_t;
@p4runtime_translation("p4.org/pna/v1/FlowId_t", 32)
type FlowIdUint_t FlowId_t;

/// Index of a configured idle time.
typedef bit<8> ExpireTimeProfileIdUint_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileId_t", 8)
type ExpireTimeProfileIdUint_t ExpireTimeProfileId_t;

#ifndef PNA_THREE_BLOCKS
/// Number of previous passes of the packet through the main block.
typedef bit<3> PassNumberUint_t;
@p4runtime_translation("p4.org/pna/v1/PassNumber_t", 8)
type PassNumberUint_t PassNumber_t;
#endif

/// Security association of an inline cipher.
typedef bit<32> SecurityAssocIdUint_t;
@p4runtime_translation("p4.org/pna/v1/SecurityAssocId_t", 64)
type SecurityAssocIdUint_t SecurityAssocId_t;

/// Result of parsing.
typedef error ParserError_t;

/// The CPU of the node: `send_to_port` sends the packet to the slow path or the controller.
const InterfaceId_t PNA_PORT_CPU = (InterfaceId_t) 32w0xfffffffd;

/// Mirror session that the architecture reserves for copies to the CPU.
const MirrorSessionId_t PNA_MIRROR_SESSION_TO_CPU = (MirrorSessionId_t) 16w0;

typedef bit<32> PortIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PortIdInHeader_t", 32)
type PortIdInHeaderUint_t PortIdInHeader_t;

typedef bit<32> InterfaceIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/InterfaceIdInHeader_t", 32)
type InterfaceIdInHeaderUint_t InterfaceIdInHeader_t;

typedef bit<32> MulticastGroupInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastGroupInHeader_t", 32)
type MulticastGroupInHeaderUint_t MulticastGroupInHeader_t;

typedef bit<16> MirrorSessionIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionIdInHeader_t", 16)
type MirrorSessionIdInHeaderUint_t MirrorSessionIdInHeader_t;

typedef bit<8> MirrorSlotIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotIdInHeader_t", 8)
type MirrorSlotIdInHeaderUint_t MirrorSlotIdInHeader_t;

typedef bit<8> ClassOfServiceInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfServiceInHeader_t", 8)
type ClassOfServiceInHeaderUint_t ClassOfServiceInHeader_t;

typedef bit<16> PacketLengthInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PacketLengthInHeader_t", 16)
type PacketLengthInHeaderUint_t PacketLengthInHeader_t;

typedef bit<16> MulticastInstanceInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstanceInHeader_t", 16)
type MulticastInstanceInHeaderUint_t MulticastInstanceInHeader_t;

typedef bit<64> TimestampInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/TimestampInHeader_t", 64)
type TimestampInHeaderUint_t TimestampInHeader_t;

typedef bit<32> FlowIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/FlowIdInHeader_t", 32)
type FlowIdInHeaderUint_t FlowIdInHeader_t;

typedef bit<8> ExpireTimeProfileIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileIdInHeader_t", 8)
type ExpireTimeProfileIdInHeaderUint_t ExpireTimeProfileIdInHeader_t;

#ifndef PNA_THREE_BLOCKS
typedef bit<8> PassNumberInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PassNumberInHeader_t", 8)
type PassNumberInHeaderUint_t PassNumberInHeader_t;
#endif

typedef bit<32> SecurityAssocIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/SecurityAssocIdInHeader_t", 64)
type SecurityAssocIdInHeaderUint_t SecurityAssocIdInHeader_t;

// Conversion from the header type to the internal type and back. A wider value loses its upper
// bits; a narrower value is zero-extended.

PortId_t pna_PortId_header_to_int(in PortIdInHeader_t x) {
    return (PortId_t) (PortIdUint_t) (PortIdInHeaderUint_t) x;
}
InterfaceId_t pna_InterfaceId_header_to_int(in InterfaceIdInHeader_t x) {
    return (InterfaceId_t) (InterfaceIdUint_t) (InterfaceIdInHeaderUint_t) x;
}
MulticastGroup_t pna_MulticastGroup_header_to_int(in MulticastGroupInHeader_t x) {
    return (MulticastGroup_t) (MulticastGroupUint_t) (MulticastGroupInHeaderUint_t) x;
}
MirrorSessionId_t pna_MirrorSessionId_header_to_int(in MirrorSessionIdInHeader_t x) {
    return (MirrorSessionId_t) (MirrorSessionIdUint_t) (MirrorSessionIdInHeaderUint_t) x;
}
ClassOfService_t pna_ClassOfService_header_to_int(in ClassOfServiceInHeader_t x) {
    return (ClassOfService_t) (ClassOfServiceUint_t) (ClassOfServiceInHeaderUint_t) x;
}
PacketLength_t pna_PacketLength_header_to_int(in PacketLengthInHeader_t x) {
    return (PacketLength_t) (PacketLengthUint_t) (PacketLengthInHeaderUint_t) x;
}
MulticastInstance_t pna_MulticastInstance_header_to_int(in MulticastInstanceInHeader_t x) {
    return (MulticastInstance_t) (MulticastInstanceUint_t) (MulticastInstanceInHeaderUint_t) x;
}
Timestamp_t pna_Timestamp_header_to_int(in TimestampInHeader_t x) {
    return (Timestamp_t) (TimestampUint_t) (TimestampInHeaderUint_t) x;
}
FlowId_t pna_FlowId_header_to_int(in FlowIdInHeader_t x) {
    return (FlowId_t) (FlowIdUint_t) (FlowIdInHeaderUint_t) x;
}
ExpireTimeProfileId_t pna_ExpireTimeProfileId_header_to_int(in ExpireTimeProfileIdInHeader_t x) {
    return (ExpireTimeProfileId_t) (ExpireTimeProfileIdUint_t) (ExpireTimeProfileIdInHeaderUint_t) x;
}
#ifndef PNA_THREE_BLOCKS
PassNumber_t pna_PassNumber_header_to_int(in PassNumberInHeader_t x) {
    return (PassNumber_t) (PassNumberUint_t) (PassNumberInHeaderUint_t) x;
}
#endif

PortIdInHeader_t pna_PortId_int_to_header(in PortId_t x) {
    return (PortIdInHeader_t) (PortIdInHeaderUint_t) (PortIdUint_t) x;
}
InterfaceIdInHeader_t pna_InterfaceId_int_to_header(in InterfaceId_t x) {
    return (InterfaceIdInHeader_t) (InterfaceIdInHeaderUint_t) (InterfaceIdUint_t) x;
}
MulticastGroupInHeader_t pna_MulticastGroup_int_to_header(in MulticastGroup_t x) {
    return (MulticastGroupInHeader_t) (MulticastGroupInHeaderUint_t) (MulticastGroupUint_t) x;
}
MirrorSessionIdInHeader_t pna_MirrorSessionId_int_to_header(in MirrorSessionId_t x) {
    return (MirrorSessionIdInHeader_t) (MirrorSessionIdInHeaderUint_t) (MirrorSessionIdUint_t) x;
}
ClassOfServiceInHeader_t pna_ClassOfService_int_to_header(in ClassOfService_t x) {
    return (ClassOfServiceInHeader_t) (ClassOfServiceInHeaderUint_t) (ClassOfServiceUint_t) x;
}
PacketLengthInHeader_t pna_PacketLength_int_to_header(in PacketLength_t x) {
    return (PacketLengthInHeader_t) (PacketLengthInHeaderUint_t) (PacketLengthUint_t) x;
}
MulticastInstanceInHeader_t pna_MulticastInstance_int_to_header(in MulticastInstance_t x) {
    return (MulticastInstanceInHeader_t) (MulticastInstanceInHeaderUint_t) (MulticastInstanceUint_t) x;
}
TimestampInHeader_t pna_Timestamp_int_to_header(in Timestamp_t x) {
    return (TimestampInHeader_t) (TimestampInHeaderUint_t) (TimestampUint_t) x;
}
FlowIdInHeader_t pna_FlowId_int_to_header(in FlowId_t x) {
    return (FlowIdInHeader_t) (FlowIdInHeaderUint_t) (FlowIdUint_t) x;
}
ExpireTimeProfileIdInHeader_t pna_ExpireTimeProfileId_int_to_header(in ExpireTimeProfileId_t x) {
    return (ExpireTimeProfileIdInHeader_t) (ExpireTimeProfileIdInHeaderUint_t) (ExpireTimeProfileIdUint_t) x;
}
#ifndef PNA_THREE_BLOCKS
PassNumberInHeader_t pna_PassNumber_int_to_header(in PassNumber_t x) {
    return (PassNumberInHeader_t) (PassNumberInHeaderUint_t) (PassNumberUint_t) x;
}
#endif

match_kind {
    /// From the entry's low to its high value, both inclusive. The priority decides.
    range,
    /// Not compared: the field is an input of the hash of the table's `ActionSelector`.
    selector,
    /// All bits are equal, or the entry omits the field. The priority decides.
    optional
}

// ---------------------------------------------------------------------------------------------
// Table properties of PNA
// ---------------------------------------------------------------------------------------------
//   add_on_miss = true            the default action may call add_entry
//   pna_idle_timeout = ...        behaviour of idle entries, see below
//   pna_direct_counter = c        a DirectCounter for each entry
//   pna_direct_meter = m          a DirectMeter for each entry
//   pna_implementation = p        an ActionProfile or ActionSelector holds the actions
//   idle_timeout_with_auto_delete = true
//                                 older spelling of pna_idle_timeout = AUTO_DELETE
//   default_idle_timeout_for_data_plane_added_entries = n
//                                 expire time profile of entries that were added with a profile
//                                 that the control plane has not configured
// The specification's pna_empty_group_action is not supported: an entry with a group without
// members acts like a miss.

/// Behaviour of an entry whose idle time has passed.
enum PNA_IdleTimeout_t {
    /// Entries have no idle time.
    NO_TIMEOUT,
    /// The control plane is notified each time that the idle time passes; the entry is kept.
    NOTIFY_CONTROL,
    /// The entry is deleted without notification.
    AUTO_DELETE
}

// ---------------------------------------------------------------------------------------------
// Hashes and checksums
// ---------------------------------------------------------------------------------------------

/// The input is the concatenation of the fields in network bit order, padded with 0 bits at the end
/// to a whole number of bytes (ONES_COMPLEMENT16: to 16 bits).
enum PNA_HashAlgorithm_t {
    /// CRC32 on all engines.
    TARGET_DEFAULT,
    /// The data, or their first 64 bits if they are wider.
    IDENTITY,
    /// CRC-32 of IEEE 802.3: polynomial 0x04c11db7, reflected, initial and final XOR all ones.
    CRC32,
    /// CRC-32 with a polynomial that the control plane can change; initially CRC32.
    CRC32_CUSTOM,
    /// CRC-16/ARC: polynomial 0x8005, reflected, initial value 0.
    CRC16,
    /// CRC-16 with a polynomial that the control plane can change; initially CRC16.
    CRC16_CUSTOM,
    /// The Internet checksum, RFC 1071.
    ONES_COMPLEMENT16
}

/// A hash function. `O` is a `bit<W>`: the low W bits of the hash, or the zero-extended hash.
extern Hash<O> {
    Hash(PNA_HashAlgorithm_t algo);

    /// Returns the hash of `data`.
    O get_hash<D>(in D data);

    /// Returns `base` + (hash mod `max`), truncated to W bits; `base` if `max` is 0.
    O get_hash<T, D>(in T base, in D data, in T max);
}

/// A checksum by any algorithm over several calls. Its state belongs to one packet and is reset at
/// each start of the enclosing parser or control.
extern Checksum<W> {
    Checksum(PNA_HashAlgorithm_t hash);

    /// Resets the checksum.
    void clear();

    /// Appends `data` to the input.
    void update<T>(in T data);

    /// Returns the checksum of all data since the last `clear`.
    W get();
}

/// The checksum of IPv4, UDP, TCP and ICMP (RFC 1071), with incremental update (RFC 1624). Its
/// state belongs to one packet and is reset at each start of the enclosing parser or control.
extern InternetChecksum {
    InternetChecksum();

    /// Resets the sum to 0.
    void clear();

    /// Adds the 16-bit words of `data`. The width of `data` is a multiple of 16 bits.
    void add<T>(in T data);

    /// Subtracts the 16-bit words of `data`. The width of `data` is a multiple of 16 bits.
    void subtract<T>(in T data);

    /// Returns the complement of the one's complement sum, as headers store it. Over a header with
    /// a correct checksum the result is 0.
    bit<16> get();

    /// Returns the sum for a later `set_state`.
    bit<16> get_state();

    /// Continues from a sum that `get_state` of any InternetChecksum returned.
    void set_state(in bit<16> checksum_state);
}

// ---------------------------------------------------------------------------------------------
// Counters, meters, registers, random numbers
// ---------------------------------------------------------------------------------------------
// An index outside of the array is not an error: the operation has no effect, and a read
// returns 0 (a meter: green). Byte counts use the length of the packet at its entry into the
// main block.

/// Units of a counter.
enum PNA_CounterType_t {
    PACKETS,
    BYTES,
    PACKETS_AND_BYTES
}

/// An array of counters of type `W`, a `bit<N>`, with indices of type `S`. The data plane counts
/// modulo 2^64 for any N. The control plane reads and resets.
@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PNA_CounterType_t type);

    /// Adds one packet and `increment` bytes (default: the length of the packet).
    void count(in S index, @optional in bit<32> increment);
}

/// A counter for each entry of the table with this object as its property `pna_direct_counter`.
/// Unlike in v1model, only a call of `count` in the action counts.
@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PNA_CounterType_t type);

    /// Adds one packet and `increment` bytes (default: the length of the packet). Has no effect in
    /// the default action after a miss.
    void count(@optional in bit<32> increment);
}

/// Units of a meter's rates and bursts.
enum PNA_MeterType_t {
    PACKETS,
    BYTES
}

/// Colors of RFC 2698.
enum PNA_MeterColor_t { RED, GREEN, YELLOW }

/// An array of two-rate three-color markers (RFC 2698). The control plane sets committed and peak
/// rates and bursts. An unconfigured meter returns green.
extern Meter<S> {
    Meter(bit<32> n_meters, PNA_MeterType_t type);

    /// Color-aware: the result is never better than `color`.
    PNA_MeterColor_t execute(in S index, in PNA_MeterColor_t color);

    /// Color-blind: equal to `color` = GREEN.
    PNA_MeterColor_t execute(in S index);
}

/// A meter for each entry of the table with this object as its property `pna_direct_meter`. A call
/// of `execute` in the action meters; after a miss the result is green. `pkt_len`, in bytes,
/// defaults to the length of the packet; packet meters ignore it.
extern DirectMeter {
    DirectMeter(PNA_MeterType_t type);
    PNA_MeterColor_t execute(in PNA_MeterColor_t color, @optional in bit<32> pkt_len);
    PNA_MeterColor_t execute(@optional in bit<32> pkt_len);
}

/// An array of values that the program and the control plane read and write.
extern Register<T, S> {
    /// `size` values, all 0 (the specification leaves this open).
    Register(bit<32> size);

    /// `size` values, all `initial_value`.
    Register(bit<32> size, T initial_value);

    /// Returns the value at `index`.
    T read(in S index);

    /// Stores `value` at `index`.
    void write(in S index, in T value);
}

/// Uniformly distributed numbers from `min` to `max`, both inclusive; `min` if min > max. A
/// configurable seed makes runs reproducible.
extern Random<T> {
    Random(T min, T max);
    T read();
}

// ---------------------------------------------------------------------------------------------
// Indirect actions, digests
// ---------------------------------------------------------------------------------------------

/// Stores actions outside of table entries, so that several entries share one. `size` limits the
/// number of members.
extern ActionProfile {
    ActionProfile(bit<32> size);
}

/// An action profile with groups of members. A table entry refers to a member or a group. In a
/// group, the member at (H mod number of members) is selected, where H is the hash by `algo` of the
/// key fields of kind `selector`, truncated to `outputWidth` bits. Members are in the order of
/// their ids. `size` limits the number of members.
extern ActionSelector {
    ActionSelector(PNA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

/// A list of messages of type `T` to the control plane.
extern Digest<T> {
    Digest();

    /// Sends a copy of `data` to the control plane.
    void pack(in T data);
}

// ---------------------------------------------------------------------------------------------
// Metadata
// ---------------------------------------------------------------------------------------------

#ifdef PNA_THREE_BLOCKS

/// Side that a packet comes from. Part of no metadata; declared for programs that use the name.
enum PNA_Source_t {
    FROM_HOST,
    FROM_NET
}

struct pna_main_parser_input_metadata_t {
    /// Whether the packet has passed the main block before.
    bool                     recirculated;
    /// Input port of the packet. A recirculated packet keeps it.
    PortId_t                 input_port;
}

struct pna_main_input_metadata_t {
    bool                     recirculated;
    /// Time of arrival (of a recirculated packet: start of this pass).
    Timestamp_t              timestamp;
    /// Result of the main parser.
    ParserError_t            parser_error;
    /// 0 on Terrace.
    ClassOfService_t         class_of_service;
    PortId_t                 input_port;
    /// Terrace's own field: length in bytes by which the packet exceeds the longest segment into
    /// which a port will cut it; 0 unless it is a super-frame (GSO). A program that reads it gets
    /// super-frames whole, and tests lengths that concern a wire against a segment: the packet's
    /// length minus this. For other programs super-frames are cut first.
    bit<16>                  segment_excess;
}

#else

/// Side that a packet comes from: a network port or a vport.
enum PNA_Direction_t {
    NET_TO_HOST,
    HOST_TO_NET
}

/// Origin of a packet. Part of no metadata; declared for programs that use the name.
enum PNA_PacketPath_t {
    FROM_NET_PORT,
    FROM_NET_LOOPEDBACK,
    FROM_NET_RECIRCULATED,
    FROM_HOST,
    FROM_HOST_LOOPEDBACK,
    FROM_HOST_RECIRCULATED
}

struct pna_pre_input_metadata_t {
    /// Input port of the packet.
    PortId_t                 input_port;
    /// Always NoError, because nothing has been parsed.
    ParserError_t            parser_error;
    PNA_Direction_t          direction;
    /// Number of previous recirculations.
    PassNumber_t             pass;
    /// Always false on Terrace: ports have no loopback.
    bool                     loopedback;
}

/// Parameters of an inline cipher. Ignored on Terrace.
struct pna_pre_output_metadata_t {
    bool                     decrypt;
    SecurityAssocId_t        said;
    bit<16>                  decrypt_start_offset;
}

struct pna_main_parser_input_metadata_t {
    PNA_Direction_t          direction;
    PassNumber_t             pass;
    bool                     loopedback;
    /// Input port of the packet. A recirculated packet keeps it.
    PortId_t                 input_port;
}

struct pna_main_input_metadata_t {
    PNA_Direction_t          direction;
    PassNumber_t             pass;
    bool                     loopedback;
    /// Time of arrival (of a recirculated packet: start of this pass).
    Timestamp_t              timestamp;
    /// Result of the main parser.
    ParserError_t            parser_error;
    /// 0 on Terrace.
    ClassOfService_t         class_of_service;
    PortId_t                 input_port;
    /// Terrace's own field: length in bytes by which the packet exceeds the longest segment into
    /// which a port will cut it; 0 unless it is a super-frame (GSO). A program that reads it gets
    /// super-frames whole, and tests lengths that concern a wire against a segment: the packet's
    /// length minus this. For other programs super-frames are cut first.
    bit<16>                  segment_excess;
}

#endif

struct pna_main_output_metadata_t {
    /// Written by the program; initially 0. Carried without effect, because a port has one queue.
    ClassOfService_t         class_of_service;
}

/// Returns whether `p` is a vport, or a network port. Both are false for a missing port.
extern bool is_host_port(in PortId_t p);
extern bool is_net_port(in PortId_t p);

// ---------------------------------------------------------------------------------------------
// Destination of a packet
// ---------------------------------------------------------------------------------------------
// Only in MainControl. Of drop_packet and send_to_port, the last call counts. Neither ends the
// control: the following code is executed.

/// Drops the packet at the end of the main block.
extern void drop_packet();

/// Sends the packet on `dest_port`: a network port, a vport or the CPU.
extern void send_to_port(PortId_t dest_port);

/// Requests a copy by the mirror session `mirror_session_id`, for any verdict of the packet itself.
/// A second call for the same slot replaces the first. A slot above 3, or a session that the
/// control plane has not created, makes no copy.
extern void mirror_packet(MirrorSlotId_t mirror_slot_id,
                          MirrorSessionId_t mirror_session_id);

/// Truncates the deparsed packet to `length` bytes, also for the CPU. Mirror copies and
/// recirculated packets are complete. Terrace adds this function to PNA, because bytes after the
/// packet of an Ethernet frame are payload to a parser, and no other function of PNA removes them.
extern void truncate(in bit<32> length);

/// Sends the deparsed packet through the main block again, with the pass number incremented. User
/// metadata is reinitialised.
extern void recirculate();

// ---------------------------------------------------------------------------------------------
// Entries that the data plane adds, and their expiry
// ---------------------------------------------------------------------------------------------

/// Adds an entry in the default action of a table with add_on_miss = true whose keys are all exact.
/// The entry has the key that missed, the action `action_name` (one of the table's actions) and its
/// parameters. `action_params` is a struct or tuple with one field for each parameter, in order; a
/// single parameter can be given directly. Later packets hit the entry. Returns true (with three
/// blocks: ADD_ENTRY_SUCCESS) if the entry was added; false (ADD_ENTRY_NOT_DONE) if the table is
/// full or the key already exists.
#ifdef PNA_THREE_BLOCKS
typedef bit<1> AddEntryErrorStatus_t;
const AddEntryErrorStatus_t ADD_ENTRY_SUCCESS = 0;
const AddEntryErrorStatus_t ADD_ENTRY_NOT_DONE = 1;

extern AddEntryErrorStatus_t add_entry<T>(string action_name,
                                          in T action_params,
                                          in ExpireTimeProfileId_t expire_time_profile_id);

/// `do_add_entry ? add_entry(...) : ADD_ENTRY_NOT_DONE`.
extern AddEntryErrorStatus_t add_entry_if<T>(in bool do_add_entry,
                                             string action_name,
                                             in T action_params,
                                             in ExpireTimeProfileId_t expire_time_profile_id);
#else
extern bool add_entry<T>(string action_name,
                         in T action_params,
                         in ExpireTimeProfileId_t expire_time_profile_id);

/// `do_add_entry ? add_entry(...) : false`.
extern bool add_entry_if<T>(in bool do_add_entry,
                            string action_name,
                            in T action_params,
                            in ExpireTimeProfileId_t expire_time_profile_id);
#endif

/// Returns a number that no flow has, in rising order.
extern FlowId_t allocate_flow_id();

// For actions of tables with an idle timeout; without effect after a miss. The timer of an entry
// starts when the entry is added, and restarts with each of these calls. In a table whose
// actions call one of them, a hit alone does not restart the timer. In other tables each hit
// restarts it.

/// Changes the idle time of the entry and restarts its timer.
extern void set_entry_expire_time(
    in ExpireTimeProfileId_t expire_time_profile_id);

/// Restarts the entry's timer.
extern void restart_expire_timer();

/// If `update_aging_info`: set_entry_expire_time(expire_time_profile_id) if `update_expire_time`,
/// otherwise restart_expire_timer().
extern void update_expire_info(
    in bool update_aging_info,
    in bool update_expire_time,
    in ExpireTimeProfileId_t expire_time_profile_id);

/// If `condition`: set_entry_expire_time(expire_time_profile_id).
extern void set_entry_expire_time_if(
    in bool condition,
    in ExpireTimeProfileId_t expire_time_profile_id);

#ifdef PNA_THREE_BLOCKS
/// Returns `from_net_value` if `is_network_port`, otherwise `from_host_value`: for keys that swap
/// source and destination by the side that a packet comes from.
@pure
extern T SelectByDirection<T>(
    in bool is_network_port,
    in T from_net_value,
    in T from_host_value);
#else
/// Returns `n2h_value` for NET_TO_HOST, otherwise `h2n_value`: for keys that swap source and
/// destination by direction.
@pure
extern T SelectByDirection<T>(
    in PNA_Direction_t direction,
    in T n2h_value,
    in T h2n_value);
#endif

// ---------------------------------------------------------------------------------------------
// The architecture
// ---------------------------------------------------------------------------------------------

#ifndef PNA_THREE_BLOCKS
control PreControlT<PH, PM>(
    in    PH pre_hdr,
    inout PM pre_user_meta,
    in    pna_pre_input_metadata_t  istd,
    inout pna_pre_output_metadata_t ostd);
#endif

parser MainParserT<MH, MM>(
    packet_in pkt,
    out   MH main_hdr,
    inout MM main_user_meta,
    in    pna_main_parser_input_metadata_t istd);

control MainControlT<MH, MM>(
    inout MH main_hdr,
    inout MM main_user_meta,
    in    pna_main_input_metadata_t  istd,
    inout pna_main_output_metadata_t ostd);

#ifdef PNA_THREE_BLOCKS
control MainDeparserT<MH, MM>(
    packet_out pkt,
    inout MH main_hdr,
    in    MM main_user_meta,
    in    pna_main_output_metadata_t ostd);

package PNA_NIC<MH, MM>(
    MainParserT<MH, MM> main_parser,
    MainControlT<MH, MM> main_control,
    MainDeparserT<MH, MM> main_deparser);
#else
control MainDeparserT<MH, MM>(
    packet_out pkt,
    in    MH main_hdr,
    in    MM main_user_meta,
    in    pna_main_output_metadata_t ostd);

package PNA_NIC<PH, PM, MH, MM>(
    MainParserT<MH, MM> main_parser,
    PreControlT<PH, PM> pre_control,
    MainControlT<MH, MM> main_control,
    MainDeparserT<MH, MM> main_deparser);
#endif

#endif  // __PNA_P4__
