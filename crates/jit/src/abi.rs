//! Memory layout that native code and the engine share.
//!
//! A packet in flight has a frame: [`FrameHeader`], the list of emitted headers, frame slots,
//! values that outlive a stage, and storage for headers that the program creates. Numbers are in
//! host byte order; packets and stored headers in network order.

/// Maximum number of packets that pass the stages together. A larger chunk hides more memory
/// latency and shares the fixed cost of a stage among more packets, but its packets and frames
/// leave the first-level cache between two stages.
pub const MAX_CHUNK: usize = 512;

/// Size of a cache line in bytes.
pub const CACHE_LINE_BYTES: usize = 64;

/// Fields of a frame that the engine writes before the first stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrameInput {
    /// First byte of the packet as received.
    pub data: *mut u8,
    /// Length in bytes that counters and meters use: that of [`packet::Packet::metered_len_bytes`],
    /// or the packet's own.
    pub metered_len: u32,
    /// Always 1. Together with `metered_len` this is the word that a packet adds to the statistics
    /// ([`crate::stats::split_count`]).
    pub packet_count: u32,
    /// Ingress port.
    pub ingress_port: u32,
    /// PNA: 1 if the port belongs to a host.
    pub direction: u16,
    /// [`packet::Offload::segment_excess`].
    pub segment_excess: u16,
    /// Number of parser states entered, if the parser may loop.
    pub parser_states: u32,
    /// Length of the packet in bytes, at most [`packet::MAX_LEN`].
    pub len: u32,
}

impl FrameInput {
    /// Returns the fields as words, in their order in memory.
    pub fn words(&self) -> [u64; 4] {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let FrameInput { data, metered_len, packet_count, ingress_port, parser_states, len, .. } = *self;
        let small = u32::from(self.direction) | u32::from(self.segment_excess) << 16;
        [data as u64, word(metered_len, packet_count), word(ingress_port, small), word(parser_states, len)]
    }
}

// Counters and meters of a batch add up lengths of 16 bits.
const _: () = assert!(packet::MAX_LEN <= u16::MAX as usize);

/// Time of arrival of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketTime {
    /// Nanoseconds; never before that of the previous packet.
    pub time_ns: u64,
    /// Nanoseconds since the engine's start time.
    pub since_start_ns: u64,
    /// Microseconds since the engine's start time.
    pub since_start_us: u64,
}

/// Values of the low half of [`FrameHeader::destination`].
pub mod destination {
    /// No destination.
    pub const NOWHERE: u32 = 0;
    /// Dropped by the program.
    pub const DROP: u32 = 1;
    /// To the port in the high half.
    pub const PORT: u32 = 2;
    /// Dropped by the engine; the high half is the number of its reason.
    pub const ENGINE_DROP: u32 = 3;
    /// Flag on `NOWHERE`, `DROP` and `PORT`: the packet leaves unchanged in its buffer, with all of
    /// its bytes.
    pub const IN_PLACE: u32 = 4;
    /// Flag: only the first bytes of the packet leave ([`super::FrameHeader::truncate`]).
    pub const TRUNCATED: u32 = 8;
    /// Flag on `NOWHERE` and `DROP`: the packet enters the main block again. With `DROP`, it is
    /// dropped, and what enters again is another packet.
    pub const RECIRCULATE: u32 = 16;
}

/// Returns the high half of a frame's destination: the port of a `PORT` destination.
#[inline(always)]
pub fn port(destination: u64) -> u32 {
    (destination >> 32) as u32
}

/// First bytes of each frame. The fields after `input` are valid once the packet has finished.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    /// Fields written by the engine.
    pub input: FrameInput,
    /// Verdict, see [`destination`]. The fields after it, except the reasons and the time, are
    /// valid only for packets that passed the deparser.
    pub destination: u64,
    /// The program's drop reason, if it has a variable for one.
    pub drop_reason: u32,
    /// The program's reason for sending to the CPU, if it has a variable for one.
    pub cpu_reason: u32,
    /// First byte of the packet as it leaves, if its headers are in place.
    pub output_start: *mut u8,
    /// Number of bytes parsed.
    pub cursor: u32,
    /// Number of headers emitted.
    pub emitted_count: u16,
    /// 1 if the emitted headers are contiguous and end at the payload.
    pub in_place: u16,
    /// Length in bytes that `truncate` leaves, plus 1. Valid only if the destination has
    /// [`destination::TRUNCATED`].
    pub truncate: u64,
    /// Time of arrival, written by the engine if the program needs it.
    pub time: PacketTime,
}

impl FrameHeader {
    /// Returns the port of a `PORT` destination.
    #[inline(always)]
    pub fn port(&self) -> u32 {
        port(self.destination)
    }
}

// The fields that most packets need share one cache line.
const _: () = assert!(std::mem::offset_of!(FrameHeader, truncate) == 64);

/// An emitted header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EmittedHeader {
    /// First byte of the header.
    pub at: *const u8,
    /// Length in bytes.
    pub len: u64,
}

/// Space for the selector keys of one packet, in bytes.
pub const SELECTOR_KEY_BYTES: usize = 256;

/// A counter update that is deferred until the counter's cache line has been prefetched.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PendingCount {
    /// The counter: packets and bytes.
    pub at: *mut [u64; 2],
    /// Bytes to add.
    pub bytes: u64,
}

/// Argument of every stage: the first bytes of [`crate::memory::WorkerMemory`].
#[repr(C)]
#[derive(Debug)]
pub struct StageContext {
    /// The first frame.
    pub frames: *mut u8,
    /// Zeros, which reads of invalid headers load.
    pub zeros: *const u8,
    /// Memory that writes to invalid headers store to.
    pub sink: *mut u8,
    /// Deferred counter updates.
    pub pending: *mut PendingCount,
    /// Number of deferred updates.
    pub pending_count: u64,
    /// Arguments and results of calls.
    pub call_area: *mut u64,
    /// Distance between frames in bytes.
    pub frame_stride: usize,
    /// End of a stage's packets: of its list of frame addresses, or of the frames.
    pub queue_end: *const u8,
    /// Tables and value sets in the version of this batch.
    pub lookups: *const lookup::LookupSet,
    /// The engine's [`crate::runtime::Runtime`], for calls.
    pub runtime: *mut core::ffi::c_void,
    /// Record buffer of the first packet, for code that records ([`crate::record`]).
    pub record_buffers: *mut u8,
    /// The worker's [`crate::flows::WorkerFlows`], for calls.
    pub flows: *mut core::ffi::c_void,
}

/// A stage. Runs at least one packet: those with frame addresses from `first` to the context's
/// `queue_end`. For the stage at which packets enter, `first` is the first frame itself.
pub type StageFn = unsafe extern "C" fn(context: *mut StageContext, first: *const u8);

/// Size of the area for arguments and results of calls, in words.
pub const CALL_AREA_WORDS: usize = 4096;

/// Maximum size in bytes that a header needs of the zeros and of the sink.
pub const MAX_HEADER_BYTES: usize = 2 * 8 * 1024;

/// Counter arrays of at least this many elements use deferred updates, because their elements are
/// rarely in the cache.
pub const MIN_DEFERRED_COUNTERS: u64 = 2048;

/// Addresses of the functions that native code calls.
#[derive(Clone, Copy, Debug)]
pub struct Helpers {
    /// `(context, frame, site, entry hit and color)`: calls an extern; arguments and results are in
    /// the call area.
    pub call: usize,
    /// `(context, frame, site, entry hit, key) -> 0 or 1`: adds an entry with the key that the
    /// packet looked up; arguments are in the call area.
    pub add_entry: usize,
    /// `(context, frame, table, entry) -> color`: records that an entry was hit.
    pub hit: usize,
    /// `(context, frame)`: records that the packet enters a body.
    pub begin_block: usize,
    /// `(algorithm, bytes, length) -> hash`.
    pub hash: usize,
    /// `(frame, cursor, algorithm, bytes, length) -> hash` over the bytes and the packet's payload.
    pub hash_payload: usize,
    /// `(operation, width and sign, width of the other operand, area)`: computes a rare operation;
    /// the result is in the call area.
    pub arithmetic: usize,
    /// `(context, set) -> 0 or 1`: searches a value set; the keys are in the call area.
    pub value_set: usize,
}
