//! What the kernel loses after the flow cache's program has sent a packet: counted by programs on its tracepoints (`bpf/lost.bpf.c`), by port and reason.
//!
//! | tracepoint | what it tells | reasons |
//! |---|---|---|
//! | `xdp_devmap_xmit` | a device took only some of the frames that were redirected to it | queue full, down, no receiver |
//! | `xdp_redirect_err` | a frame could not be redirected to a device, or to a socket | down, longer than the MTU, no buffer; longer than a socket's buffer |
//! | `xdp_bulk_tx` | frames that went back where they came from were not taken (veth) | as the first |
//! | `xdp_exception` | a driver, or behind a driver the stack, could not send a frame | other |
//!
//! All of them know whose frame it was: the interface, with its network namespace, or the map's number.

use super::mapped::Words;
use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use packet::PortReason;
use std::os::fd::AsFd;

/// Of `bpf/lost.bpf.c`: the length of a port's line.
const REASONS: usize = 16;
/// Of the same: frames that did not come by a port, which are no loss of ours.
const NOT_OURS: usize = 8;
/// Of the same, in order: what each place of a port's line counts, on the way out.
const SENDING: [PortReason; 6] = [
    PortReason::TxPortDown,
    PortReason::TxMtu,
    PortReason::TxQueueFull,
    PortReason::TxXdpRefused,
    PortReason::TxNoBuffer,
    PortReason::TxError,
];
/// The same, on the way in.
const RECEIVING: [(usize, PortReason); 2] = [(6, PortReason::RxOversize), (7, PortReason::RxError)];

/// Function and tracepoint of each program.
const PROGRAMS: [(&str, &str); 4] = [
    ("devmap_xmit", "xdp_devmap_xmit"),
    ("redirect_err", "xdp_redirect_err"),
    ("bulk_tx", "xdp_bulk_tx"),
    ("exception", "xdp_exception"),
];

#[cfg(has_bpf)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lost.bpf.o"));
#[cfg(not(has_bpf))]
static OBJECT: &[u8] = &[];

/// What was lost at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost([u64; REASONS]);

impl Lost {
    /// Frames that were sent and did not leave, by reason.
    pub fn on_the_way_out(&self) -> impl Iterator<Item = (PortReason, u64)> {
        SENDING.into_iter().zip(self.0)
    }

    /// Frames that were for a socket and did not get there, by reason.
    pub fn on_the_way_in(&self) -> impl Iterator<Item = (PortReason, u64)> {
        RECEIVING.into_iter().map(|(at, reason)| (reason, self.0[at]))
    }

    /// Frames of [`super::Kernel::probe`] that the device did not take.
    pub fn probes(&self) -> u64 {
        self.0[NOT_OURS]
    }

    /// What was lost since `earlier`.
    pub fn since(&self, earlier: &Lost) -> Lost {
        Lost(std::array::from_fn(|at| self.0[at].wrapping_sub(earlier.0[at])))
    }
}

fn tracing<'e>(ebpf: &'e mut Ebpf, function: &str) -> Result<&'e mut BtfTracePoint, String> {
    let program = ebpf.program_mut(function).ok_or_else(|| format!("the object has no {function}"))?;
    program.try_into().map_err(|error: aya::programs::ProgramError| super::kernel::chain(&error))
}

/// An interface as the programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Interface {
    /// Its index.
    pub index: u32,
    /// The number of its network namespace.
    pub namespace: u32,
}

/// The numbers of the flow cache's maps and program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Mine {
    pub devices: u32,
    pub sockets: u32,
    pub program: u32,
    pub unused: u32,
}

/// See the module. The programs are attached as long as it lives.
pub(super) struct LossCounter {
    // Keeps the programs attached.
    _ebpf: Ebpf,
    watched: HashMap<MapData, Interface, u32>,
    lost: Words,
}

impl LossCounter {
    /// Attaches the programs; so many ports can be watched.
    ///
    /// # Errors
    /// The kernel has no such tracepoints, says nothing of its structures (CONFIG_DEBUG_INFO_BTF), or does not take the programs.
    pub fn attach(mine: Mine, ports: u32) -> Result<LossCounter, String> {
        let why = |error: &dyn std::error::Error| super::kernel::chain(error);
        let btf = Btf::from_sys_fs().map_err(|error| why(&error))?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(OBJECT).map_err(|error| why(&error))?;
        let none = |what: &str| format!("the object has no {what}");
        for (function, tracepoint) in PROGRAMS {
            let loaded = tracing(&mut ebpf, function)?.load(tracepoint, &btf);
            loaded.map_err(|error| format!("{tracepoint}: {}", why(&error)))?;
        }
        // Programs that are loaded keep their maps.
        let map = |ebpf: &mut Ebpf, name: &str| ebpf.take_map(name).ok_or_else(|| none(name));
        let mut ids = Array::<_, Mine>::try_from(map(&mut ebpf, "mine")?).map_err(|error| why(&error))?;
        ids.set(0, mine, 0).map_err(|error| why(&error))?;
        let watched = HashMap::try_from(map(&mut ebpf, "watched")?).map_err(|error| why(&error))?;
        let lost = match map(&mut ebpf, "lost")? {
            Map::Array(data) => Words::new(data.fd().as_fd(), ports as usize * REASONS).map_err(|error| why(&error))?,
            _ => return Err(none("array of what is lost")),
        };
        for (function, tracepoint) in PROGRAMS {
            let attached = tracing(&mut ebpf, function)?.attach();
            attached.map_err(|error| format!("{tracepoint}: {}", why(&error)))?;
        }
        Ok(LossCounter { _ebpf: ebpf, watched, lost })
    }

    /// What is lost at this interface is the port's at that place from now on.
    pub fn watch(&mut self, interface: Interface, place: u32) -> Result<(), String> {
        self.watched.insert(interface, place, 0).map_err(|error| super::kernel::chain(&error))
    }

    /// The interface is no port any more.
    pub fn unwatch(&mut self, interface: Interface) {
        // An interface that is not there is none.
        let _ = self.watched.remove(&interface);
    }

    /// What was lost at a place, all ports together that it has had.
    pub fn lost(&self, place: u32) -> Lost {
        Lost(std::array::from_fn(|reason| self.lost.get(place as usize * REASONS + reason)))
    }
}

impl Interface {
    /// That of this index in the calling thread's network namespace.
    pub fn here(index: u32) -> Interface {
        use std::os::linux::fs::MetadataExt;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.st_ino() as u32);
        Interface { index, namespace }
    }
}
