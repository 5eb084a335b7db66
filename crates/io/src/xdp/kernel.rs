//! [`Kernel`]: the program's maps, shared by the ports that it is attached to and by whoever fills them.

use super::XdpError;
use super::form::{Flow, Key, MAX_SHAPES, Settings, Shape};
use super::lost::{Interface, LossCounter, Mine};
use super::mapped::Words;
use super::passage::{self, Passage};
use aya::maps::{Array, DevMap, HashMap, Map, MapData, XskMap};
use aya::programs::{Xdp, XdpFlags, xdp::XdpLink};
use aya::{Ebpf, EbpfLoader};
use packet::Counter;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The most ports.
pub const PORTS: u32 = 256;
/// Queues of a port whose packets get to this process.
pub(super) const QUEUES: u32 = 64;
/// Kinds of outcomes: `bpf/terrace.bpf.c` lists them.
const OUTCOMES: usize = 11;
/// In a value of the map `ports`, beside the port's place: the program is behind the driver.
const BEHIND_DRIVER: u32 = 0x100;

#[cfg(has_bpf)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/terrace.bpf.o"));
#[cfg(not(has_bpf))]
static OBJECT: &[u8] = &[];

/// What a flow has had, since it was put there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets, and their bytes as they came in.
    pub counter: Counter,
    /// When the last one came, in nanoseconds since the Unix epoch; 0 if none has.
    pub last: u64,
}

/// What became of packets that the program saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Rewritten, and sent back by the port that they came in by.
    pub sent: u64,
    /// Rewritten, and sent by another port.
    pub redirected: u64,
    /// Dropped, as their flow is.
    pub dropped: u64,
    /// Of no flow.
    pub missed: u64,
    /// Of a flow, but there is no room in front for a longer head. They missed.
    pub no_headroom: u64,
    /// Their key is that of a flow, but not their length, or a checksum is wrong. They missed.
    pub misfit: u64,
    /// Of an interface that is no port.
    pub foreign: u64,
    /// A fault of the program, or a flow that makes no sense. They missed, or passed to the stack.
    pub fault: u64,
    /// Of a flow, but the device by which it leaves takes no packets from programs. They missed.
    pub avoided: u64,
    /// Rewritten for a port that is none any more, and dropped.
    pub portless: u64,
    /// Dropped, as they could not be written to: a fault of the program.
    pub broken: u64,
}

/// The kernel's flow cache. Clones are the same one.
#[derive(Clone)]
pub struct Kernel(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("flows", &self.inner().room).finish_non_exhaustive()
    }
}

pub(super) struct Inner {
    // Keeps the programs loaded.
    pub ebpf: Ebpf,
    settings: Array<MapData, Settings>,
    shapes: Array<MapData, Shape>,
    keys: HashMap<MapData, Key, u32>,
    flows: Array<MapData, Flow>,
    ports: HashMap<MapData, u32, u32>,
    devices: DevMap<MapData>,
    sockets: XskMap<MapData>,
    refusing: Array<MapData, u32>,
    pub generators: Array<MapData, [u32; 2]>,
    pub frames: Array<MapData, [u8; super::form::WINDOW]>,
    tallies: Words,
    outcomes: Words,
    passages: Words,
    /// What the kernel loses, or why that is not counted.
    pub losses: Result<LossCounter, String>,
    room: u32,
    processors: u32,
    /// What each tally was when its place was given away.
    zero: Vec<Tally>,
    /// By place.
    attached: BTreeMap<u32, Attached>,
    /// Who fills the maps.
    owner: Option<u64>,
    /// Nobody may before that: packets that found an earlier owner's flows may be under way.
    rests_until: Option<Instant>,
}

/// A port that the program is attached to.
struct Attached {
    /// Its number.
    number: u32,
    name: String,
    interface: Interface,
    /// Its device takes no packets from programs.
    refuses: bool,
}

/// So long after a flow was taken out, no packet that has found it is under way any more: a program runs for some microseconds.
pub const REST: Duration = Duration::from_millis(20);

/// An error with those that led to it, the last ones in full.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    // The kernel's reasons are the last.
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    // A verifier's log is long; its end says why.
    let from = text.char_indices().rev().nth(1_500).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

pub(super) fn refused(error: impl std::error::Error) -> XdpError {
    XdpError::Refused(chain(&error))
}

pub(super) fn full(error: impl std::fmt::Display) -> XdpError {
    XdpError::Map(error.to_string())
}

impl Kernel {
    /// Loads the program, with room for so many flows.
    ///
    /// # Errors
    /// There is none, or the kernel does not take it.
    pub fn load(room: u32) -> Result<Kernel, XdpError> {
        if OBJECT.is_empty() {
            return Err(XdpError::NotBuilt);
        }
        let room = room.clamp(1, 1 << 22);
        let processors = aya::util::nr_cpus().map_err(|(_, error)| refused(error))? as u32;
        let mut loader = EbpfLoader::new();
        loader.set_max_entries("keys", room).set_max_entries("flows", room);
        loader.set_max_entries("tallies", room * processors).set_max_entries("outcomes", OUTCOMES as u32 * processors);
        loader.set_max_entries("passages", PORTS * processors);
        let mut ebpf = loader.load(OBJECT).map_err(refused)?;
        for name in ["terrace", "probe", "pass", "sink", "generate"] {
            program(&mut ebpf, name)?.load().map_err(refused)?;
        }
        let mut take = |name: &'static str| {
            ebpf.take_map(name).ok_or_else(|| XdpError::Refused(format!("the program has no map {name}")))
        };
        let words = |map: &Map, count: usize| match map {
            Map::Array(data) => Words::new(data.fd().as_fd(), count)
                .map_err(|source| XdpError::System { step: "map the program's counters", source }),
            _ => Err(XdpError::Refused("a map of counters is no array".to_owned())),
        };
        let (tallies, outcomes, passages) = (take("tallies")?, take("outcomes")?, take("passages")?);
        let tallies = words(&tallies, (room * processors) as usize * 4)?;
        let outcomes = words(&outcomes, OUTCOMES * processors as usize)?;
        let passages = words(&passages, passage::WORDS * (PORTS * processors) as usize)?;
        let mut settings = Array::try_from(take("settings")?).map_err(refused)?;
        settings.set(0, Settings { shapes: 0, processors }, 0).map_err(full)?;
        let (devices, sockets) = (take("devices")?, take("sockets")?);
        let refusing = Array::try_from(take("refusing")?).map_err(refused)?;
        let generators = Array::try_from(take("generators")?).map_err(refused)?;
        let (frames, ports) = (take("frames")?, take("ports")?);
        let (shapes, keys, flows) = (take("shapes")?, take("keys")?, take("flows")?);
        let losses = mine(&devices, &sockets, &mut ebpf).and_then(|mine| LossCounter::attach(mine, PORTS));
        let inner = Inner {
            shapes: Array::try_from(shapes).map_err(refused)?,
            keys: HashMap::try_from(keys).map_err(refused)?,
            flows: Array::try_from(flows).map_err(refused)?,
            ports: HashMap::try_from(ports).map_err(refused)?,
            devices: DevMap::try_from(devices).map_err(refused)?,
            sockets: XskMap::try_from(sockets).map_err(refused)?,
            frames: Array::try_from(frames).map_err(refused)?,
            generators,
            refusing,
            settings,
            tallies,
            outcomes,
            passages,
            losses,
            room,
            processors,
            zero: vec![Tally::default(); room as usize],
            attached: BTreeMap::new(),
            owner: None,
            rests_until: None,
            ebpf,
        };
        Ok(Kernel(Arc::new(Mutex::new(inner))))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Room for so many flows.
    pub fn room(&self) -> u32 {
        self.inner().room
    }

    /// The place of the port of that number, if the program is attached to it.
    pub fn port(&self, number: u32) -> Option<u32> {
        self.inner().attached.iter().find(|(_, attached)| attached.number == number).map(|(place, _)| *place)
    }

    /// Whether the maps are those of the owner of that number, as they are from the moment on that it asks when they are nobody's.
    pub fn claim(&self, owner: u64) -> bool {
        let mut inner = self.inner();
        if inner.owner.is_none() && inner.rests_until.is_none_or(|until| Instant::now() >= until) {
            inner.owner = Some(owner);
        }
        inner.owner == Some(owner)
    }

    /// The owner of that number is none any more, if it was: packets find no flows.
    pub fn release(&self, owner: u64) {
        let mut inner = self.inner();
        if inner.owner != Some(owner) {
            return;
        }
        let settings = Settings { shapes: 0, processors: inner.processors };
        let _ = inner.settings.set(0, settings, 0);
        let keys: Vec<Key> = inner.keys.keys().flatten().collect();
        keys.iter().for_each(|key| drop(inner.keys.remove(key)));
        (inner.owner, inner.rests_until) = (None, Some(Instant::now() + REST));
    }

    /// Tells of a shape: new, or with another gate. The program tries the first `count`.
    ///
    /// # Errors
    /// The map refuses it.
    pub fn set_shape(&self, number: u32, shape: &Shape, count: u32) -> Result<(), XdpError> {
        let mut inner = self.inner();
        inner.shapes.set(number, shape, 0).map_err(full)?;
        let settings = Settings { shapes: count.min(MAX_SHAPES as u32), processors: inner.processors };
        inner.settings.set(0, settings, 0).map_err(full)
    }

    /// Puts a flow at a place that packets have had no way to for some time, and lets them find it.
    ///
    /// # Errors
    /// A map is full. Nothing has changed then.
    pub fn install(&self, place: u32, flow: &Flow) -> Result<(), XdpError> {
        let mut inner = self.inner();
        let now = inner.read(place);
        if let Some(zero) = inner.zero.get_mut(place as usize) {
            *zero = now;
        }
        inner.flows.set(place, flow, 0).map_err(full)?;
        inner.keys.insert(flow.key, place, 0).map_err(full)
    }

    /// Packets find the flow no more: the next one misses. Its place may be given to another one after a while, when no packet that has found it can be under way.
    pub fn remove(&self, key: &Key, place: u32) {
        let mut inner = self.inner();
        if inner.keys.get(key, 0).is_ok_and(|found| found == place) {
            let _ = inner.keys.remove(key);
        }
    }

    /// What the flow at a place has had.
    pub fn tally(&self, place: u32) -> Tally {
        let inner = self.inner();
        let zero = inner.zero.get(place as usize).copied().unwrap_or_default();
        let now = inner.read(place);
        let counter = now.counter.since(zero.counter);
        Tally { counter, last: if counter.is_zero() { 0 } else { to_unix(now.last) } }
    }

    /// What became of packets.
    pub fn outcomes(&self) -> Outcomes {
        let inner = self.inner();
        let sum = |what| (0..inner.processors as usize).map(|at| inner.outcomes.get(at * OUTCOMES + what)).sum();
        let all: [u64; OUTCOMES] = std::array::from_fn(sum);
        let [sent, redirected, dropped, missed, no_headroom, misfit, foreign, fault, avoided, portless, broken] = all;
        Outcomes { sent, redirected, dropped, missed, no_headroom, misfit, foreign, fault, avoided, portless, broken }
    }

    /// Why what the kernel loses after it has sent a packet is not counted, if it is not.
    pub fn uncounted(&self) -> Option<String> {
        self.inner().losses.as_ref().err().cloned()
    }

    /// The ports whose devices take no packets from programs, by number: what the kernel would send there comes to the process.
    pub fn refusing(&self) -> Vec<(u32, String)> {
        let inner = self.inner();
        let refusing = inner.attached.values().filter(|attached| attached.refuses);
        refusing.map(|attached| (attached.number, attached.name.clone())).collect()
    }

    /// What went through a place so far, all ports together that it has had.
    pub(super) fn passage(&self, place: u32) -> Passage {
        let inner = self.inner();
        let lost = inner.losses.as_ref().map(|losses| losses.lost(place)).unwrap_or_default();
        Passage::read(&inner.passages, PORTS, inner.processors, place, lost)
    }

    /// From now on, packets of flows that leave by this place come to the process, or do not any more.
    pub(super) fn set_refusing(&self, place: u32, refuses: bool) {
        let mut inner = self.inner();
        // A place that is in range is taken.
        let _ = inner.refusing.set(place, u32::from(refuses), 0);
        if let Some(attached) = inner.attached.get_mut(&place) {
            attached.refuses = refuses;
        }
    }

    /// How many keys the kernel holds.
    pub fn held(&self) -> usize {
        self.inner().keys.keys().flatten().count()
    }

    pub(super) fn attach(
        &self,
        name: &str,
        interface: u32,
        number: u32,
        native: bool,
    ) -> Result<(u32, XdpLink), XdpError> {
        let mut inner = self.inner();
        let failed = |why: String| XdpError::Attach { interface: name.to_owned(), why };
        if let Some(other) = inner.attached.values().find(|attached| attached.interface.index == interface) {
            return Err(failed(format!(
                "the port `{}` has the interface of the same number ({interface}), by which the program knows ports",
                other.name
            )));
        }
        let place = (0..PORTS).find(|place| !inner.attached.contains_key(place)).ok_or(XdpError::TooManyPorts)?;
        inner.ports.insert(interface, place | if native { 0 } else { BEHIND_DRIVER }, 0).map_err(full)?;
        inner.devices.set(place, interface, None, 0).map_err(full)?;
        inner.refusing.set(place, 0, 0).map_err(full)?;
        let here = Interface::here(interface);
        if let Ok(losses) = &mut inner.losses {
            losses.watch(here, place).map_err(XdpError::Map)?;
        }
        let flags = if native { XdpFlags::DRV_MODE } else { XdpFlags::SKB_MODE };
        let xdp = program(&mut inner.ebpf, "terrace")?;
        let link = xdp.attach_to_if_index(interface, flags).and_then(|id| xdp.take_link(id));
        let attached = Attached { number, name: name.to_owned(), interface: here, refuses: false };
        inner.attached.insert(place, attached);
        match link {
            Ok(link) => Ok((place, link)),
            Err(error) => {
                inner.detach(place);
                Err(failed(chain(&error)))
            }
        }
    }

    pub(super) fn detach(&self, place: u32) {
        self.inner().detach(place);
    }

    pub(super) fn add_socket(&self, place: u32, queue: u32, socket: BorrowedFd<'_>) -> Result<(), XdpError> {
        self.inner().sockets.set(place * QUEUES + queue, socket, 0).map_err(full)
    }
}

/// By which numbers the kernel knows what is ours.
fn mine(devices: &Map, sockets: &Map, ebpf: &mut Ebpf) -> Result<Mine, String> {
    let id = |map: &Map| match map {
        Map::DevMap(data) | Map::XskMap(data) => data.info().map(|info| info.id()).map_err(|error| chain(&error)),
        _ => Err("a map is of another kind".to_owned()),
    };
    let program = program(ebpf, "terrace").map_err(|error| error.to_string())?;
    let program = program.info().map_err(|error| chain(&error))?.id();
    Ok(Mine { devices: id(devices)?, sockets: id(sockets)?, program, unused: 0 })
}

pub(super) fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, XdpError> {
    let none = || XdpError::Refused(format!("the object has no program {name}"));
    ebpf.program_mut(name).ok_or_else(none)?.try_into().map_err(refused)
}

impl Inner {
    /// As it is, not since the place was given away.
    fn read(&self, place: u32) -> Tally {
        let mut tally = Tally::default();
        for processor in 0..self.processors {
            let at = (place * self.processors + processor) as usize * 4;
            tally.counter += Counter { packets: self.tallies.get(at), bytes: self.tallies.get(at + 1) };
            tally.last = tally.last.max(self.tallies.get(at + 2));
        }
        tally
    }

    fn detach(&mut self, place: u32) {
        let Some(attached) = self.attached.remove(&place) else { return };
        let _ = self.ports.remove(&attached.interface.index);
        if let Ok(losses) = &mut self.losses {
            losses.unwatch(attached.interface);
        }
        // No device: what still finds a flow to it is dropped and counted. Sockets leave their map when they are closed.
        let _ = self.devices.set(place, 0, None, 0);
    }
}

/// From the kernel's clock to the time of day.
fn to_unix(monotonic: u64) -> u64 {
    let ago = super::mapped::monotonic().saturating_sub(monotonic);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64);
    unix.saturating_sub(ago)
}
