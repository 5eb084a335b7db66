// SPDX-License-Identifier: Apache-2.0
//
// PNA, the Portable NIC Architecture. It is the architecture of Terrace's own programs: NICs and
// DPUs speak it, and it has tables that the data plane itself adds entries to, and entries that
// expire.
//
// PNA has two interfaces, because the specification changed after programs were written:
//
//   <pna.p4>        four blocks, with a direction and a pass number, plus what version 0.7 of the
//                   specification adds: the named hash algorithms, `AUTO_DELETE`, `is_net_port`,
//                   `add_entry_if`, `update_expire_info` and `set_entry_expire_time_if`.
//   <bmv2/pna.p4>   today's: three blocks, without PreControl. It defines PNA_THREE_BLOCKS and
//                   includes this file; `#ifdef` marks each difference.
//
// A packet's way:
//
//   [PreControl ->] MainParser -> MainControl -> MainDeparser
//
// PreControl sees no headers (nothing parses for it) and exists for inline decryption, which
// Terrace doesn't have: it runs, and its output is ignored. A packet that the parser rejects
// still enters MainControl, with the headers that were extracted before and the error in
// `istd.parser_error`.
//
// At the end of MainDeparser, the mirrored copies that were asked for are made. Then, what the last
// call of these said happens to the packet:
//
//   send_to_port(p)    sent on p; a port that doesn't exist: dropped, reason unknown_port
//   drop_packet()      dropped
//   none of the two    dropped, reason no_destination
//
// except that recirculate() sends it through the main block once more, in place of all three.
// A packet is recirculated at most 7 times, as the pass number has three bits; then dropped.
//
// Terrace knows the reason for a verdict by name: a field `drop_reason` of the user metadata, of an
// enum `drop_reason_t` with an underlying type, holds why the program dropped the packet; likewise
// `punt_reason` (or `cpu_reason`) of `punt_reason_t` (`cpu_reason_t`) for packets sent to the CPU.
// The enum's members are the names that show in traces and metrics; 0 says "none given". Both enums
// share one set of numbers.

#ifndef __PNA_P4__
#define __PNA_P4__

#include <core.p4>

// ---------------------------------------------------------------------------------------------
// Types
// ---------------------------------------------------------------------------------------------
// Each quantity has up to four names. `XUint_t` is plain bits, for arithmetic. `X_t` is a type
// of its own: it can't be mixed with others by accident, and the control plane's API knows it by
// name. The `InHeader` forms of both are for fields of packet headers between the data plane and
// a controller: whole bytes, and as wide as any target will ever need.

/// A network port or a vport; the node's configuration says which one is which.
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

/// Where a mirrored copy goes and what it holds; 0 is the architecture's own.
typedef bit<16> MirrorSessionIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionId_t", 16)
type MirrorSessionIdUint_t MirrorSessionId_t;

/// One of the copies that a packet can ask for: 0 to 3 on Terrace.
typedef bit<8> MirrorSlotIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotId_t", 8)
type MirrorSlotIdUint_t MirrorSlotId_t;

/// The class of service in which the packet is queued.
typedef bit<8> ClassOfServiceUint_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;

/// A packet's length in bytes.
typedef bit<16> PacketLengthUint_t;
@p4runtime_translation("p4.org/pna/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;

/// Which copy of a replicated packet.
typedef bit<16> MulticastInstanceUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstance_t", 16)
type MulticastInstanceUint_t MulticastInstance_t;

/// Nanoseconds since the engine started.
typedef bit<64> TimestampUint_t;
@p4runtime_translation("p4.org/pna/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;

/// A number that the data plane gives to a flow.
typedef bit<32> FlowIdUint_t;
@p4runtime_translation("p4.org/pna/v1/FlowId_t", 32)
type FlowIdUint_t FlowId_t;

/// Index of an idle time that the control plane configures.
typedef bit<8> ExpireTimeProfileIdUint_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileId_t", 8)
type ExpireTimeProfileIdUint_t ExpireTimeProfileId_t;

#ifndef PNA_THREE_BLOCKS
/// How often the packet has been through the main block before.
typedef bit<3> PassNumberUint_t;
@p4runtime_translation("p4.org/pna/v1/PassNumber_t", 8)
type PassNumberUint_t PassNumber_t;
#endif

/// A security association of an inline cipher.
typedef bit<32> SecurityAssocIdUint_t;
@p4runtime_translation("p4.org/pna/v1/SecurityAssocId_t", 64)
type SecurityAssocIdUint_t SecurityAssocId_t;

/// What parsing ended with.
typedef error ParserError_t;

/// The CPU of the node: with `send_to_port`, the packet goes to the slow path or the controller.
const InterfaceId_t PNA_PORT_CPU = (InterfaceId_t) 32w0xfffffffd;

/// The mirror session that the architecture keeps for copies to the CPU.
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

// From a header's form to the internal one, and back. A wider value loses its upper bits, a
// narrower one gets 0 bits in front.

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
    /// From the entry's low to its high value, both included. Priorities decide.
    range,
    /// Not compared: the field feeds the hash of the table's `ActionSelector`.
    selector,
    /// All bits are equal, or the entry leaves the field out. Priorities decide.
    optional
}

// ---------------------------------------------------------------------------------------------
// Table properties of PNA
// ---------------------------------------------------------------------------------------------
//   add_on_miss = true            the default action may call add_entry
//   pna_idle_timeout = ...        what happens to entries that nothing hits, see below
//   pna_direct_counter = c        a DirectCounter for each entry
//   pna_direct_meter = m          a DirectMeter for each entry
//   pna_implementation = p        an ActionProfile or ActionSelector holds the actions
//   idle_timeout_with_auto_delete = true
//                                 the older spelling of pna_idle_timeout = AUTO_DELETE
//   default_idle_timeout_for_data_plane_added_entries = n
//                                 the expire time profile of entries added with a profile that
//                                 the control plane hasn't configured
// The specification's pna_empty_group_action isn't supported: an entry that points at a group
// without members does what a miss does.

/// What happens when an entry has been idle for its time.
enum PNA_IdleTimeout_t {
    /// Entries have no idle time.
    NO_TIMEOUT,
    /// The control plane is told, once for each time that the idle time passes; the entry stays.
    NOTIFY_CONTROL,
    /// The entry is deleted and nobody is told.
    AUTO_DELETE
}

// ---------------------------------------------------------------------------------------------
// Hashes and checksums
// ---------------------------------------------------------------------------------------------

/// Input of each is the concatenation of the data's fields in network bit order, padded with 0
/// bits at the end to a whole number of bytes (ONES_COMPLEMENT16: to 16 bits).
enum PNA_HashAlgorithm_t {
    /// CRC32, so that all engines agree.
    TARGET_DEFAULT,
    /// The data themselves; if they are wider than 64 bits, the first 64.
    IDENTITY,
    /// CRC-32 of IEEE 802.3: polynomial 0x04c11db7, reflected, start and final xor all ones.
    CRC32,
    /// A CRC-32 whose polynomial the control plane can change; it starts as CRC32.
    CRC32_CUSTOM,
    /// CRC-16/ARC: polynomial 0x8005, reflected, start 0.
    CRC16,
    /// A CRC-16 whose polynomial the control plane can change; it starts as CRC16.
    CRC16_CUSTOM,
    /// The Internet checksum, RFC 1071.
    ONES_COMPLEMENT16
}

/// A hash function. `O` is a `bit<W>`: the hash's low W bits, or the hash with 0 bits in front.
extern Hash<O> {
    Hash(PNA_HashAlgorithm_t algo);

    /// The hash of `data`.
    O get_hash<D>(in D data);

    /// `base` + (the hash mod `max`); if `max` is 0, `base`. The sum is cut to W bits.
    O get_hash<T, D>(in T base, in D data, in T max);
}

/// A checksum by any algorithm, added up over several calls. Its state is a packet's own and
/// begins anew each time the enclosing parser or control begins.
extern Checksum<W> {
    Checksum(PNA_HashAlgorithm_t hash);

    /// Begins anew.
    void clear();

    /// Appends `data` to the input.
    void update<T>(in T data);

    /// The checksum of all data since the last `clear`.
    W get();
}

/// The checksum of IPv4, UDP, TCP and ICMP (RFC 1071), with incremental update (RFC 1624). Its
/// state is a packet's own and begins anew each time the enclosing parser or control begins.
extern InternetChecksum {
    InternetChecksum();

    /// Begins anew, with the sum 0.
    void clear();

    /// Adds the 16-bit words of `data`, which is a multiple of 16 bits wide.
    void add<T>(in T data);

    /// Takes the 16-bit words of `data`, which is a multiple of 16 bits wide, away.
    void subtract<T>(in T data);

    /// The complement of the one's complement sum: what goes into a header. Over a header that
    /// contains its correct checksum, it is 0.
    bit<16> get();

    /// The sum itself, for a later `set_state`.
    bit<16> get_state();

    /// Goes on from a sum that `get_state` of any InternetChecksum gave.
    void set_state(in bit<16> checksum_state);
}

// ---------------------------------------------------------------------------------------------
// Counters, meters, registers, random numbers
// ---------------------------------------------------------------------------------------------
// An index outside the array is never an error: nothing is counted, metered or stored, and what
// would have been read is 0 (of a meter: green). Bytes are those of the packet as it entered the
// main block.

/// What a counter counts.
enum PNA_CounterType_t {
    PACKETS,
    BYTES,
    PACKETS_AND_BYTES
}

/// An array of counters of type `W`, a `bit<N>`, with indices of type `S`. The data plane counts
/// modulo 2^64 whatever N is. Read and reset by the control plane.
@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PNA_CounterType_t type);

    /// Adds one packet, and `increment` bytes: if it is left out, the packet's length.
    void count(in S index, @optional in bit<32> increment);
}

/// A counter for each entry of the table that names this in `pna_direct_counter`. Unlike in
/// v1model, a packet is counted where the action calls `count`, and only then.
@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PNA_CounterType_t type);

    /// Adds one packet, and `increment` bytes: if it is left out, the packet's length. In the
    /// default action after a miss: without effect.
    void count(@optional in bit<32> increment);
}

/// What a meter's rates and bursts are given in.
enum PNA_MeterType_t {
    PACKETS,
    BYTES
}

/// The colours of RFC 2698.
enum PNA_MeterColor_t { RED, GREEN, YELLOW }

/// An array of two-rate three-colour markers, RFC 2698. The control plane sets committed and
/// peak rates and bursts; a meter that hasn't been configured says green.
extern Meter<S> {
    Meter(bit<32> n_meters, PNA_MeterType_t type);

    /// Colour-aware: the result is never better than `color`.
    PNA_MeterColor_t execute(in S index, in PNA_MeterColor_t color);

    /// Colour-blind: as if `color` were green.
    PNA_MeterColor_t execute(in S index);
}

/// A meter for each entry of the table that names this in `pna_direct_meter`. It is executed
/// where the action calls `execute`; after a miss it says green. `pkt_len`, in bytes, is the
/// packet's length if it is left out; packet meters ignore it.
extern DirectMeter {
    DirectMeter(PNA_MeterType_t type);
    PNA_MeterColor_t execute(in PNA_MeterColor_t color, @optional in bit<32> pkt_len);
    PNA_MeterColor_t execute(@optional in bit<32> pkt_len);
}

/// An array of values that the program and the control plane both read and write.
extern Register<T, S> {
    /// `size` values, all 0 (the specification leaves that open).
    Register(bit<32> size);

    /// `size` values, all `initial_value`.
    Register(bit<32> size, T initial_value);

    /// The value at `index`.
    T read(in S index);

    /// Stores `value` at `index`.
    void write(in S index, in T value);
}

/// Numbers in `min`..`max`, both included and each as likely; if min > max, always `min`.
/// An engine's seed can be set, so that a run repeats.
extern Random<T> {
    Random(T min, T max);
    T read();
}

// ---------------------------------------------------------------------------------------------
// Indirect actions, digests
// ---------------------------------------------------------------------------------------------

/// Holds actions apart from a table's entries, so that several entries share one. `size` limits
/// the number of members.
extern ActionProfile {
    ActionProfile(bit<32> size);
}

/// An action profile with groups of members. A table entry points at a member or a group; of
/// a group, the member at (H mod number of members) acts, where H is the hash by `algo` of the
/// key fields of kind `selector`, cut to `outputWidth` bits, and members stand in order of their
/// numbers. `size` limits the members.
extern ActionSelector {
    ActionSelector(PNA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

/// A list of messages of type `T` to the control plane.
extern Digest<T> {
    Digest();

    /// Hands `data`, as it is now, to the control plane.
    void pack(in T data);
}

// ---------------------------------------------------------------------------------------------
// Metadata
// ---------------------------------------------------------------------------------------------

#ifdef PNA_THREE_BLOCKS

/// From which side a packet comes. Not part of any metadata; kept for programs that name it.
enum PNA_Source_t {
    FROM_HOST,
    FROM_NET
}

struct pna_main_parser_input_metadata_t {
    /// Whether the packet has been through the main block before.
    bool                     recirculated;
    /// The port on which the packet came in; a recirculated packet keeps it.
    PortId_t                 input_port;
}

struct pna_main_input_metadata_t {
    bool                     recirculated;
    /// When the packet came in (a recirculated packet: when this pass began).
    Timestamp_t              timestamp;
    /// What the main parser ended with.
    ParserError_t            parser_error;
    /// 0 on Terrace.
    ClassOfService_t         class_of_service;
    PortId_t                 input_port;
}

#else

/// From which side a packet comes: from a network port or from a vport.
enum PNA_Direction_t {
    NET_TO_HOST,
    HOST_TO_NET
}

/// How a packet came here. Not part of any metadata; kept for programs that name it.
enum PNA_PacketPath_t {
    FROM_NET_PORT,
    FROM_NET_LOOPEDBACK,
    FROM_NET_RECIRCULATED,
    FROM_HOST,
    FROM_HOST_LOOPEDBACK,
    FROM_HOST_RECIRCULATED
}

struct pna_pre_input_metadata_t {
    /// The port on which the packet came in.
    PortId_t                 input_port;
    /// Always NoError, as nothing has been parsed.
    ParserError_t            parser_error;
    PNA_Direction_t          direction;
    /// 0, then one more for each recirculation.
    PassNumber_t             pass;
    /// Always false on Terrace: no packet turns round at a port.
    bool                     loopedback;
}

/// What an inline cipher would be told. Ignored on Terrace.
struct pna_pre_output_metadata_t {
    bool                     decrypt;
    SecurityAssocId_t        said;
    bit<16>                  decrypt_start_offset;
}

struct pna_main_parser_input_metadata_t {
    PNA_Direction_t          direction;
    PassNumber_t             pass;
    bool                     loopedback;
    /// The port on which the packet came in; a recirculated packet keeps it.
    PortId_t                 input_port;
}

struct pna_main_input_metadata_t {
    PNA_Direction_t          direction;
    PassNumber_t             pass;
    bool                     loopedback;
    /// When the packet came in (a recirculated packet: when this pass began).
    Timestamp_t              timestamp;
    /// What the main parser ended with.
    ParserError_t            parser_error;
    /// 0 on Terrace.
    ClassOfService_t         class_of_service;
    PortId_t                 input_port;
}

#endif

struct pna_main_output_metadata_t {
    /// Written by the program; 0 at first. Carried along, as a port has a single queue.
    ClassOfService_t         class_of_service;
}

/// Whether `p` is a vport, or a network port. For a port that doesn't exist, both are false.
extern bool is_host_port(in PortId_t p);
extern bool is_net_port(in PortId_t p);

// ---------------------------------------------------------------------------------------------
// Where a packet goes
// ---------------------------------------------------------------------------------------------
// Only in MainControl. Of drop_packet and send_to_port, the last call counts. Neither ends the
// control: what follows in it is still done.

/// The packet is dropped when the main block is done.
extern void drop_packet();

/// The packet is sent on `dest_port`, a network port, a vport or the CPU.
extern void send_to_port(PortId_t dest_port);

/// Asks for one more copy, as mirror session `mirror_session_id` says, whatever happens to the
/// packet itself. A second call for the same slot replaces the first. A slot above 3 or a
/// session that the control plane hasn't made makes no copy.
extern void mirror_packet(MirrorSlotId_t mirror_slot_id,
                          MirrorSessionId_t mirror_session_id);

/// Of the deparsed packet, no more than its first `length` bytes leave; to the CPU, too. Copies for mirror
/// sessions and recirculated packets are whole. Terrace's own: what an Ethernet frame has behind the packet
/// that it carries is payload to a parser, and nothing else in PNA takes it away.
extern void truncate(in bit<32> length);

/// The deparsed packet goes through the main block again, with the pass number one higher. User
/// metadata start anew.
extern void recirculate();

// ---------------------------------------------------------------------------------------------
// Entries that the data plane adds and lets go
// ---------------------------------------------------------------------------------------------

/// In the default action of a table with add_on_miss = true, all of whose keys are exact: adds
/// an entry with the key that has just missed, the action named `action_name` (one of the table's
/// own) and its parameters. `action_params` is a struct or tuple with one field a parameter, in
/// order; a single parameter may be given as it is. Packets after this one find the entry.
/// Returns true (of three blocks: ADD_ENTRY_SUCCESS) if the entry was added; false
/// (ADD_ENTRY_NOT_DONE) if the table is full or the key is there by now.
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

/// A number that no flow has at the moment; they are given out in rising order.
extern FlowId_t allocate_flow_id();

// The following are for actions of tables with an idle timeout. After a miss they have no effect.
// An entry's timer runs from when it was added, or from the last of these calls: a mere hit
// doesn't restart it in tables whose actions call one of them. In tables of which no action
// does, each hit restarts it.

/// Gives the entry another idle time and restarts its timer.
extern void set_entry_expire_time(
    in ExpireTimeProfileId_t expire_time_profile_id);

/// Restarts the entry's timer.
extern void restart_expire_timer();

/// If `update_aging_info`: set_entry_expire_time(expire_time_profile_id) if `update_expire_time`,
/// else restart_expire_timer().
extern void update_expire_info(
    in bool update_aging_info,
    in bool update_expire_time,
    in ExpireTimeProfileId_t expire_time_profile_id);

/// If `condition`: set_entry_expire_time(expire_time_profile_id).
extern void set_entry_expire_time_if(
    in bool condition,
    in ExpireTimeProfileId_t expire_time_profile_id);

#ifdef PNA_THREE_BLOCKS
/// `from_net_value` if `is_network_port`, else `from_host_value`: for keys that swap source and
/// destination by the side that a packet comes from.
@pure
extern T SelectByDirection<T>(
    in bool is_network_port,
    in T from_net_value,
    in T from_host_value);
#else
/// `n2h_value` for NET_TO_HOST, else `h2n_value`: for keys that swap source and destination
/// by direction.
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
