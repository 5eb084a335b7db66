//! Counts packets that the kernel drops after the flow cache's program has sent them, by port and
//! reason. The eBPF programs in `bpf/lost.bpf.c` count on these tracepoints:
//!
//! | tracepoint | event | reasons |
//! |---|---|---|
//! | `xdp_devmap_xmit` | a device refused some redirected frames | queue full, down, no receiver |
//! | `xdp_redirect_err` | a frame could not be redirected | down, too long, no buffer |
//! | `xdp_bulk_tx` | a port refused frames that returned to it (veth) | as the first |
//! | `xdp_exception` | a driver, or the stack after the driver, could not send a frame | other |
//!
//! All events identify the frame's port, by the interface with its network namespace or by the
//! map's id.

use super::mapped::MappedArray;
use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use packet::PortReason;
use std::os::fd::AsFd;

/// Number of counters per port in `bpf/lost.bpf.c`.
const REASONS: usize = 16;
/// Index of the counter of frames that did not arrive on a port, and thus are no drops of a port.
const NOT_OURS: usize = 8;
/// Reasons of dropped sent packets, in the order of the counters in `bpf/lost.bpf.c`.
const SENDING: [PortReason; 6] = [
    PortReason::TxPortDown,
    PortReason::TxMtu,
    PortReason::TxQueueFull,
    PortReason::TxXdpRefused,
    PortReason::TxNoBuffer,
    PortReason::TxError,
];
/// Indices and reasons of dropped received packets in `bpf/lost.bpf.c`.
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

/// Dropped packets of a port, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LostPackets([u64; REASONS]);

impl LostPackets {
    /// Iterates over sent packets that were dropped, by reason.
    pub fn tx_drops(&self) -> impl Iterator<Item = (PortReason, u64)> {
        SENDING.into_iter().zip(self.0)
    }

    /// Iterates over packets for a socket that were dropped, by reason.
    pub fn rx_drops(&self) -> impl Iterator<Item = (PortReason, u64)> {
        RECEIVING.into_iter().map(|(at, reason)| (reason, self.0[at]))
    }

    /// Returns the number of probe frames that the device refused (`probe` in `other_programs.rs`).
    pub fn probes(&self) -> u64 {
        self.0[NOT_OURS]
    }

    /// Returns the packets dropped since `earlier`.
    pub fn since(&self, earlier: &LostPackets) -> LostPackets {
        LostPackets(std::array::from_fn(|at| self.0[at].wrapping_sub(earlier.0[at])))
    }
}

fn tracepoint_program<'e>(ebpf: &'e mut Ebpf, function: &str) -> Result<&'e mut BtfTracePoint, String> {
    let program = ebpf.program_mut(function).ok_or_else(|| format!("the object has no {function}"))?;
    program.try_into().map_err(|error: aya::programs::ProgramError| super::refusal::error_chain(&error))
}

/// Identifies an interface in the eBPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct InterfaceKey {
    /// Its index.
    pub index: u32,
    /// Inode of its network namespace.
    pub namespace: u32,
}

/// Ids of the flow cache's maps and program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ProgramIds {
    pub devices: u32,
    pub sockets: u32,
    pub program: u32,
    pub unused: u32,
}

/// Counts packets that the kernel drops after the program. Dropping this detaches the eBPF
/// programs.
pub(super) struct LossCounter {
    // Keeps the programs attached.
    _ebpf: Ebpf,
    watched: HashMap<MapData, InterfaceKey, u32>,
    lost: MappedArray,
}

impl LossCounter {
    /// Attaches the programs, with counters for `ports` ports.
    ///
    /// # Errors
    /// The kernel has no such tracepoints, lacks type information (CONFIG_DEBUG_INFO_BTF), or
    /// refuses the programs.
    pub fn attach(ids: ProgramIds, ports: u32) -> Result<LossCounter, String> {
        let error_text = |error: &dyn std::error::Error| super::refusal::error_chain(error);
        let btf = Btf::from_sys_fs().map_err(|error| error_text(&error))?;
        let mut ebpf = EbpfLoader::new().btf(Some(&btf)).load(OBJECT).map_err(|error| error_text(&error))?;
        let missing = |part: &str| format!("the object has no {part}");
        for (function, tracepoint) in PROGRAMS {
            let loaded = tracepoint_program(&mut ebpf, function)?.load(tracepoint, &btf);
            loaded.map_err(|error| format!("{tracepoint}: {}", error_text(&error)))?;
        }
        // Loaded programs keep their maps alive.
        let map = |ebpf: &mut Ebpf, name: &str| ebpf.take_map(name).ok_or_else(|| missing(name));
        let mut id_map =
            Array::<_, ProgramIds>::try_from(map(&mut ebpf, "mine")?).map_err(|error| error_text(&error))?;
        id_map.set(0, ids, 0).map_err(|error| error_text(&error))?;
        let watched = HashMap::try_from(map(&mut ebpf, "watched")?).map_err(|error| error_text(&error))?;
        let lost = match map(&mut ebpf, "lost")? {
            Map::Array(data) => {
                MappedArray::new(data.fd().as_fd(), ports as usize * REASONS).map_err(|error| error_text(&error))?
            }
            _ => return Err(missing("array of what is lost")),
        };
        for (function, tracepoint) in PROGRAMS {
            let attached = tracepoint_program(&mut ebpf, function)?.attach();
            attached.map_err(|error| format!("{tracepoint}: {}", error_text(&error)))?;
        }
        Ok(LossCounter { _ebpf: ebpf, watched, lost })
    }

    /// Starts to count an interface's drops for the port in a slot.
    pub fn watch(&mut self, interface: InterfaceKey, slot: u32) -> Result<(), String> {
        self.watched.insert(interface, slot, 0).map_err(|error| super::refusal::error_chain(&error))
    }

    /// Stops counting an interface's drops.
    pub fn unwatch(&mut self, interface: InterfaceKey) {
        // The error for a missing interface is ignored.
        let _ = self.watched.remove(&interface);
    }

    /// Returns the drops of a slot, summed over all its ports.
    pub fn lost(&self, slot: u32) -> LostPackets {
        LostPackets(std::array::from_fn(|reason| self.lost.get(slot as usize * REASONS + reason)))
    }
}

impl InterfaceKey {
    /// Returns the interface of this index in the calling thread's network namespace.
    pub fn here(index: u32) -> InterfaceKey {
        use std::os::linux::fs::MetadataExt;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.st_ino() as u32);
        InterfaceKey { index, namespace }
    }
}
