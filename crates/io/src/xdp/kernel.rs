//! [`XdpProgram`]: the eBPF program and its maps, shared by its ports and the owner of its flows.

use super::XdpError;
use super::attached::AttachedInterface;
use super::classifier::{self, TcStats};
use super::lost::{LossCounter, ProgramIds};
use super::mapped::MappedArray;
use super::maps::{MAX_SHAPES, XdpExit, XdpFlow, XdpKey, XdpKeyMask, XdpSettings};
use super::refusal::error_chain;
use super::slot_counters::{self, SlotCounters};
use aya::maps::{Array, DevMap, HashMap, Map, MapData, XskMap};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use packet::Counter;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of ports.
pub const PORTS: u32 = 256;
/// Maximum number of queues per port.
pub(super) const QUEUES: u32 = 64;
/// Number of outcome counters, listed in `bpf/flow.bpf.h`.
const OUTCOMES: usize = 19;

#[cfg(has_bpf)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/terrace.bpf.o"));
#[cfg(not(has_bpf))]
static OBJECT: &[u8] = &[];

/// Counters of a flow since its installation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounters {
    /// Packets and their received bytes.
    pub counter: Counter,
    /// Time of the last packet, in nanoseconds since the Unix epoch; 0 if there was none.
    pub last: u64,
}

/// Outcomes of the packets that the program received, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpStats {
    /// Rewritten and sent on the input port.
    pub sent: u64,
    /// Rewritten and sent on another port.
    pub redirected: u64,
    /// Dropped by their flow.
    pub dropped: u64,
    /// Without a flow.
    pub missed: u64,
    /// With a flow, but the headroom is too short for its longer header. Handled as a miss.
    pub no_headroom: u64,
    /// With the key of a flow, but its length range or a checksum does not match. Handled as a
    /// miss.
    pub not_applicable: u64,
    /// From an interface that is not a port.
    pub not_a_port: u64,
    /// Fault of the program or an invalid flow. Handled as a miss, or passed to the stack.
    pub fault: u64,
    /// With a flow, but the output device refuses packets from XDP programs. Handled as a miss.
    pub device_refused: u64,
    /// Rewritten for a port that was removed, and dropped.
    pub portless: u64,
    /// Dropped, because the packet could not be written: a fault of the program.
    pub broken: u64,
    /// Outcomes that only the tc hook has.
    pub tc: TcStats,
}

/// The kernel's flow cache. Clones share it.
#[derive(Clone)]
pub struct XdpProgram(Arc<Mutex<XdpProgramState>>);

impl std::fmt::Debug for XdpProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdpProgram").field("flows", &self.inner().flow_capacity).finish_non_exhaustive()
    }
}

pub(super) struct XdpProgramState {
    // Keeps the programs loaded.
    pub ebpf: Ebpf,
    settings: Array<MapData, XdpSettings>,
    shapes: Array<MapData, XdpKeyMask>,
    keys: HashMap<MapData, XdpKey, u32>,
    flows: Array<MapData, XdpFlow>,
    pub ports: HashMap<MapData, u32, u32>,
    pub devices: DevMap<MapData>,
    pub exits: Array<MapData, XdpExit>,
    pub sockets: XskMap<MapData>,
    pub refusing: Array<MapData, u32>,
    pub generators: Array<MapData, [u32; 2]>,
    pub frames: Array<MapData, [u8; super::maps::WINDOW]>,
    tallies: MappedArray,
    outcomes: MappedArray,
    passages: MappedArray,
    /// Counter of packets that the kernel drops after the program, or why it is missing.
    pub losses: Result<LossCounter, String>,
    /// Why the programs of the tc hook cannot be loaded.
    pub tc: Result<(), String>,
    flow_capacity: u32,
    processors: u32,
    /// Counters of each flow slot at the time of its installation.
    counters_at_install: Vec<FlowCounters>,
    /// Attached ports by slot.
    pub attached: BTreeMap<u32, AttachedInterface>,
    /// Owner of the flows.
    owner: Option<u64>,
    /// No new owner before this time, because packets may still use flows of the previous owner.
    unclaimable_until: Option<Instant>,
}

/// Time after which no packet uses a removed flow any more: the program runs for some microseconds
/// per packet.
pub const REUSE_DELAY: Duration = Duration::from_millis(20);

pub(super) fn refused(error: impl std::error::Error) -> XdpError {
    XdpError::Refused(error_chain(&error))
}

pub(super) fn map_error(error: impl std::fmt::Display) -> XdpError {
    XdpError::Map(error.to_string())
}

impl XdpProgram {
    /// Loads the program, with capacity for `flow_capacity` flows. The programs of the tc hook and
    /// the counter of losses are optional: the reasons why they are missing are kept.
    ///
    /// # Errors
    /// The build has no program, or the kernel refuses it.
    pub fn load(flow_capacity: u32) -> Result<XdpProgram, XdpError> {
        if OBJECT.is_empty() {
            return Err(XdpError::NotBuilt);
        }
        let flow_capacity = flow_capacity.clamp(1, 1 << 22);
        let processors = aya::util::nr_cpus().map_err(|(_, error)| refused(error))? as u32;
        let mut loader = EbpfLoader::new();
        loader.set_max_entries("keys", flow_capacity).set_max_entries("flows", flow_capacity);
        // Counters exist once per processor, so that the program needs no atomic operations.
        loader
            .set_max_entries("tallies", flow_capacity * processors)
            .set_max_entries("outcomes", OUTCOMES as u32 * processors);
        loader.set_max_entries("passages", PORTS * processors);
        let mut ebpf = loader.load(OBJECT).map_err(refused)?;
        for name in ["terrace", "probe", "pass", "sink", "generate"] {
            program(&mut ebpf, name)?.load().map_err(refused)?;
        }
        let tc = classifier::load_classifiers(&mut ebpf);
        let mut take_map = |name: &'static str| {
            ebpf.take_map(name).ok_or_else(|| XdpError::Refused(format!("the program has no map {name}")))
        };
        // Maps an array of `count` words to memory, so that counters are read without system calls.
        let map_counters = |map: &Map, count: usize| match map {
            Map::Array(data) => MappedArray::new(data.fd().as_fd(), count)
                .map_err(|source| XdpError::System { step: "map the program's counters", source }),
            _ => Err(XdpError::Refused("a map of counters is no array".to_owned())),
        };
        let (tallies, outcomes, passages) = (take_map("tallies")?, take_map("outcomes")?, take_map("passages")?);
        // A tally has four words (`bpf/flow.bpf.h`).
        let tallies = map_counters(&tallies, (flow_capacity * processors) as usize * 4)?;
        let outcomes = map_counters(&outcomes, OUTCOMES * processors as usize)?;
        let passages = map_counters(&passages, slot_counters::WORDS * (PORTS * processors) as usize)?;
        let mut settings = Array::try_from(take_map("settings")?).map_err(refused)?;
        settings.set(0, XdpSettings { shapes: 0, processors }, 0).map_err(map_error)?;
        let (devices, sockets) = (take_map("devices")?, take_map("sockets")?);
        let exits = Array::try_from(take_map("exits")?).map_err(refused)?;
        let refusing = Array::try_from(take_map("refusing")?).map_err(refused)?;
        let generators = Array::try_from(take_map("generators")?).map_err(refused)?;
        let (frames, ports) = (take_map("frames")?, take_map("ports")?);
        let (shapes, keys, flows) = (take_map("shapes")?, take_map("keys")?, take_map("flows")?);
        let losses = program_ids(&devices, &sockets, &mut ebpf).and_then(|ids| LossCounter::attach(ids, PORTS));
        let inner = XdpProgramState {
            shapes: Array::try_from(shapes).map_err(refused)?,
            keys: HashMap::try_from(keys).map_err(refused)?,
            flows: Array::try_from(flows).map_err(refused)?,
            ports: HashMap::try_from(ports).map_err(refused)?,
            devices: DevMap::try_from(devices).map_err(refused)?,
            sockets: XskMap::try_from(sockets).map_err(refused)?,
            frames: Array::try_from(frames).map_err(refused)?,
            exits,
            tc,
            generators,
            refusing,
            settings,
            tallies,
            outcomes,
            passages,
            losses,
            flow_capacity,
            processors,
            counters_at_install: vec![FlowCounters::default(); flow_capacity as usize],
            attached: BTreeMap::new(),
            owner: None,
            unclaimable_until: None,
            ebpf,
        };
        Ok(XdpProgram(Arc::new(Mutex::new(inner))))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, XdpProgramState> {
        self.0.lock()
    }

    /// Returns the maximum number of flows.
    pub fn flow_capacity(&self) -> u32 {
        self.inner().flow_capacity
    }

    /// Claims the flows for an owner. Returns whether it owns them: it did before, or they had no
    /// owner.
    pub fn claim_flows(&self, owner: u64) -> bool {
        let mut inner = self.inner();
        if inner.owner.is_none() && inner.unclaimable_until.is_none_or(|until| Instant::now() >= until) {
            inner.owner = Some(owner);
        }
        inner.owner == Some(owner)
    }

    /// Releases the flows if this owner has them. Removes all flows.
    pub fn release_flows(&self, owner: u64) {
        let mut inner = self.inner();
        if inner.owner != Some(owner) {
            return;
        }
        let settings = XdpSettings { shapes: 0, processors: inner.processors };
        let _ = inner.settings.set(0, settings, 0);
        let keys: Vec<XdpKey> = inner.keys.keys().flatten().collect();
        keys.iter().for_each(|key| drop(inner.keys.remove(key)));
        (inner.owner, inner.unclaimable_until) = (None, Some(Instant::now() + REUSE_DELAY));
    }

    /// Writes a key mask. The program uses the first `count` of them.
    ///
    /// # Errors
    /// The map refuses it.
    pub fn set_shape(&self, number: u32, shape: &XdpKeyMask, count: u32) -> Result<(), XdpError> {
        let mut inner = self.inner();
        inner.shapes.set(number, shape, 0).map_err(map_error)?;
        let settings = XdpSettings { shapes: count.min(MAX_SHAPES as u32), processors: inner.processors };
        inner.settings.set(0, settings, 0).map_err(map_error)
    }

    /// Installs a flow in a free slot. The slot must have been free for [`REUSE_DELAY`].
    ///
    /// # Errors
    /// A map is full. The old state remains.
    pub fn install(&self, slot: u32, flow: &XdpFlow) -> Result<(), XdpError> {
        let mut inner = self.inner();
        let now = inner.read_counters(slot);
        if let Some(counters_at_install) = inner.counters_at_install.get_mut(slot as usize) {
            *counters_at_install = now;
        }
        inner.flows.set(slot, flow, 0).map_err(map_error)?;
        inner.keys.insert(flow.key, slot, 0).map_err(map_error)
    }

    /// Removes a flow, so that its packets miss. Its slot can be reused after [`REUSE_DELAY`],
    /// because packets may still use the flow until then.
    pub fn remove(&self, key: &XdpKey, slot: u32) {
        let mut inner = self.inner();
        if inner.keys.get(key, 0).is_ok_and(|found| found == slot) {
            let _ = inner.keys.remove(key);
        }
    }

    /// Returns the counters of the flow in a slot.
    pub fn flow_counters(&self, slot: u32) -> FlowCounters {
        let inner = self.inner();
        let counters_at_install = inner.counters_at_install.get(slot as usize).copied().unwrap_or_default();
        let now = inner.read_counters(slot);
        let counter = now.counter.since(counters_at_install.counter);
        FlowCounters { counter, last: if counter.is_zero() { 0 } else { to_unix(now.last) } }
    }

    /// Returns the outcome counters, summed over the processors.
    pub fn outcomes(&self) -> XdpStats {
        let inner = self.inner();
        let sum = |outcome| {
            (0..inner.processors as usize).map(|processor| inner.outcomes.get(processor * OUTCOMES + outcome)).sum()
        };
        let sums: [u64; OUTCOMES] = std::array::from_fn(sum);
        // The order is that of the enumeration in `bpf/flow.bpf.h`.
        let [
            sent,
            redirected,
            dropped,
            missed,
            no_headroom,
            not_applicable,
            not_a_port,
            fault,
            device_refused,
            portless,
            broken,
            super_frames,
            segments,
            tagged,
            unknown_super_frames,
            resized_super_frames,
            open_checksums,
            withdrawn_checksums,
            too_long,
        ] = sums;
        let tc = TcStats {
            super_frames,
            segments,
            tagged,
            unknown_super_frames,
            resized_super_frames,
            open_checksums,
            withdrawn_checksums,
            too_long,
        };
        XdpStats {
            sent,
            redirected,
            dropped,
            missed,
            no_headroom,
            not_applicable,
            not_a_port,
            fault,
            device_refused,
            portless,
            broken,
            tc,
        }
    }

    /// Returns why packets that the kernel drops after the program are not counted, if so.
    pub fn uncounted_reason(&self) -> Option<String> {
        self.inner().losses.as_ref().err().cloned()
    }

    /// Returns the counters of a port slot, summed over all its ports.
    pub(super) fn slot_counters(&self, slot: u32) -> SlotCounters {
        let inner = self.inner();
        let lost = inner.losses.as_ref().map(|losses| losses.lost(slot)).unwrap_or_default();
        SlotCounters::read(&inner.passages, PORTS, inner.processors, slot, lost)
    }

    /// Returns the number of installed keys.
    pub fn installed_keys(&self) -> usize {
        self.inner().keys.keys().flatten().count()
    }

    pub(super) fn add_socket(&self, slot: u32, queue: u32, socket: BorrowedFd<'_>) -> Result<(), XdpError> {
        self.inner().sockets.set(slot * QUEUES + queue, socket, 0).map_err(map_error)
    }
}

/// Returns the kernel's ids of the program and its maps.
fn program_ids(devices: &Map, sockets: &Map, ebpf: &mut Ebpf) -> Result<ProgramIds, String> {
    let id = |map: &Map| match map {
        Map::DevMap(data) | Map::XskMap(data) => data.info().map(|info| info.id()).map_err(|error| error_chain(&error)),
        _ => Err("a map is of another kind".to_owned()),
    };
    let program = program(ebpf, "terrace").map_err(|error| error.to_string())?;
    let program = program.info().map_err(|error| error_chain(&error))?.id();
    Ok(ProgramIds { devices: id(devices)?, sockets: id(sockets)?, program, unused: 0 })
}

/// Returns an XDP program of the loaded object by its name.
pub(super) fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, XdpError> {
    let missing = || XdpError::Refused(format!("the object has no program {name}"));
    ebpf.program_mut(name).ok_or_else(missing)?.try_into().map_err(refused)
}

impl XdpProgramState {
    /// Reads the counters of a slot without subtracting those at its installation.
    fn read_counters(&self, slot: u32) -> FlowCounters {
        let mut tally = FlowCounters::default();
        for processor in 0..self.processors {
            let first_word = (slot * self.processors + processor) as usize * 4;
            tally.counter += Counter { packets: self.tallies.get(first_word), bytes: self.tallies.get(first_word + 1) };
            tally.last = tally.last.max(self.tallies.get(first_word + 2));
        }
        tally
    }
}

/// Converts a time of the kernel's monotonic clock to the Unix epoch, in ns.
fn to_unix(monotonic: u64) -> u64 {
    let ago = super::mapped::monotonic().saturating_sub(monotonic);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64);
    unix.saturating_sub(ago)
}
