//! What native code and the engine around it agree on in memory.
//!
//! A packet in flight has a frame: [`Head`], the list of emitted headers, its cells, values that outlive a stage, and room for headers
//! that the program makes. All numbers in host byte order; packets and header room in network order.

/// The most packets that go through the stages together. More hide memory's latency better, and each stage's own cost is shared by more; but the packets and their
/// frames leave the nearest cache between two stages.
pub const CHUNK: usize = 512;

/// A cache line, in bytes.
pub const LINE: usize = 64;

/// What the engine writes into a frame before the first stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The packet's first byte as received.
    pub data: *mut u8,
    /// What counters and meters take for its length: [`packet::Packet::came_with`].
    pub counted: u32,
    /// 1: together with `counted` one word, which is what the packet adds to a tally ([`crate::tally::split`]).
    pub one: u32,
    /// Where it came in.
    pub port: u32,
    /// PNA: 1 if the port leads to a host.
    pub direction: u32,
    /// States that the parser has entered, if it may loop.
    pub states: u32,
    /// Its length in bytes, at most [`packet::MAX_LEN`].
    pub len: u32,
}

impl Arrival {
    /// It as words, as it lies in memory.
    pub fn words(&self) -> [u64; 4] {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let Arrival { data, counted, one, port, direction, states, len } = *self;
        [data as u64, word(counted, one), word(port, direction), word(states, len)]
    }
}

// Counters and meters of a batch add up lengths of 16 bits.
const _: () = assert!(packet::MAX_LEN <= u16::MAX as usize);

/// When a packet came in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// In nanoseconds; never before the packet in front of it.
    pub time: u64,
    /// Nanoseconds since the engine's start time.
    pub now: u64,
    /// The same in microseconds.
    pub now_us: u64,
}

/// What [`Head::destination`] says in its low half.
pub mod destination {
    /// Nowhere.
    pub const NOWHERE: u32 = 0;
    /// Dropped by the program.
    pub const DROP: u32 = 1;
    /// To the port in the high half.
    pub const PORT: u32 = 2;
    /// The engine gave up; the high half is the number of its reason.
    pub const GAVE_UP: u32 = 3;
    /// Added to the first three: the packet leaves as it lies there, with all of its bytes.
    pub const AS_IT_LIES: u32 = 4;
    /// Added as well: of its bytes, only the first leave ([`super::Head::truncate`]).
    pub const CUT: u32 = 8;
}

/// The high half of a head's destination: the port, if it is to one.
#[inline(always)]
pub fn port(destination: u64) -> u32 {
    (destination >> 32) as u32
}

/// The first bytes of each frame. What is behind the arrival is there once the packet's way has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What the engine wrote.
    pub arrival: Arrival,
    /// Where it goes: [`destination`]. All that follows but the reasons is only there for packets with a way through the deparser.
    pub destination: u64,
    /// The program's reason for the drop, if it has a variable for it.
    pub drop_reason: u32,
    /// The program's reason for the CPU, if it has a variable for it.
    pub cpu_reason: u32,
    /// The first byte of the packet as it leaves, if that is in place.
    pub front: *mut u8,
    /// Bytes that were parsed.
    pub cursor: u32,
    /// How many headers were emitted.
    pub emitted: u16,
    /// Whether the emitted headers stand one behind the other in front of the payload.
    pub in_place: u16,
    /// Bytes that `truncate` leaves, plus 1. Only there if the destination says so.
    pub truncate: u64,
    /// When it came in, written by the engine as well, if somebody asks for it.
    pub clock: Clock,
}

impl Head {
    /// The high half of its destination: the port, if it goes to one.
    #[inline(always)]
    pub fn port(&self) -> u32 {
        port(self.destination)
    }
}

// All that most packets need is in one cache line.
const _: () = assert!(std::mem::offset_of!(Head, truncate) == 64);

/// An emitted header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Emitted {
    /// Its first byte.
    pub at: *const u8,
    /// Its length in bytes.
    pub len: u64,
}

/// Room for the selector keys of one packet, in bytes.
pub const AUX_BYTES: usize = 256;

/// A count that waits until its counter's cache line is there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The counter.
    pub at: *mut [u64; 2],
    /// Bytes.
    pub bytes: u64,
}

/// What every stage is given: the first bytes of [`crate::memory::Memory`].
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    /// The first frame.
    pub frames: *mut u8,
    /// Zeros: what fields of invalid headers read.
    pub zeros: *const u8,
    /// Where writes to fields of invalid headers go.
    pub sink: *mut u8,
    /// Counts that wait.
    pub pending: *mut Pending,
    /// How many.
    pub pending_count: u64,
    /// Arguments and results of calls.
    pub area: *mut u64,
    /// Bytes from frame to frame.
    pub stride: usize,
    /// Where a stage's packets end: behind the last one's address, or the last frame.
    pub last: *const u8,
    /// The tables and value sets as this batch sees them.
    pub lookups: *const lookup::Lookups,
    /// The engine, for calls back.
    pub runtime: *mut core::ffi::c_void,
    /// Where code that records notes what the first packet does ([`crate::record`]).
    pub areas: *mut u8,
}

/// A stage: runs the packets, at least one, whose frames' addresses lie from `first` on. Where packets begin, `first` is the first frame itself.
pub type StageFn = unsafe extern "C" fn(context: *mut Context, first: *const u8);

/// Words of the area for arguments and results of calls.
pub const AREA_WORDS: usize = 4096;

/// The longest zeros and sink that a header may need, in bytes.
pub const LONGEST_HEADER: usize = 2 * 8 * 1024;

/// Counters from this many on are counted when their cache lines have come.
pub const FAR_COUNTERS: u64 = 2048;

/// Addresses of the functions that native code calls.
#[derive(Clone, Copy, Debug)]
pub struct Helpers {
    /// `(context, frame, site, entry hit and colour)`: an extern's call; arguments and results in the area.
    pub call: usize,
    /// `(context, frame, table, entry) -> colour`: an entry was hit.
    pub hit: usize,
    /// `(context, frame)`: the packet enters a body.
    pub begin_block: usize,
    /// `(algorithm, bytes, length) -> hash`.
    pub hash: usize,
    /// `(frame, cursor, algorithm, bytes, length) -> hash` over the bytes and the packet's payload.
    pub hash_payload: usize,
    /// `(operation, width and sign, other's width, area)`: arithmetic that is rare, result in the area.
    pub arithmetic: usize,
    /// `(context, set) -> 0 or 1`; the keys in the area.
    pub value_set: usize,
}
