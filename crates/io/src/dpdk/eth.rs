//! A started device and its queues.
#![allow(unsafe_code)]

use super::ffi::{self, RawConfig, RawInfo, RawPacket};
use super::mbuf::{Arrived, Leaving, Pool};
use crate::sys;
use libc::{c_int, c_void};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The most packets that one call receives or sends (BURST of the shim).
pub(super) const BURST: usize = 64;

/// What a device is and can do.
#[derive(Debug, Clone)]
pub(super) struct Info {
    pub(super) driver: String,
    pub(super) max_queues: usize,
    pub(super) mtu: usize,
    /// The smallest buffer that it can use, in bytes.
    pub(super) min_room: usize,
    /// Its NUMA socket; negative: any.
    pub(super) socket: i32,
    /// Sends packets that lie in several buffers.
    pub(super) sends_chains: bool,
    /// Receives into several buffers what does not fit into one.
    pub(super) scatters: bool,
    /// Can wake a sleeper.
    pub(super) interrupts: bool,
}

impl Info {
    fn new(raw: &RawInfo) -> Info {
        // SAFETY: the shim ends the name with a zero within the array.
        let driver = unsafe { CStr::from_ptr(raw.driver.as_ptr()) };
        Info {
            driver: driver.to_string_lossy().into_owned(),
            max_queues: raw.max_queues as usize,
            mtu: raw.mtu as usize,
            min_room: raw.min_room as usize,
            socket: raw.socket,
            sends_chains: raw.multi_segments != 0,
            scatters: raw.scatters != 0,
            interrupts: raw.interrupts != 0,
        }
    }
}

/// How a device is to be set up.
pub(super) struct Setup<'a> {
    pub(super) descriptors: u16,
    /// `None`: as it is.
    pub(super) mtu: Option<usize>,
    /// The longest frame to be received, in bytes.
    pub(super) frame: usize,
    /// For each queue, where its buffers come from.
    pub(super) pools: &'a [Arc<Pool>],
    pub(super) interrupts: bool,
    /// Whether a device that cannot start yet is good enough: [`Queue::revive`] starts it.
    pub(super) may_wait: bool,
}

/// What the device counted that its queues do not see.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) missed: u64,
    pub(super) broken: u64,
    pub(super) no_buffer: u64,
    pub(super) unsent: u64,
}

/// A device that was added to DPDK; removed from it when this is dropped.
pub(super) struct Device {
    port: u16,
    /// The network namespace in which it was added: some drivers have to be there when it is removed.
    namespace: File,
    /// Set when the device disappears from the machine. Leaked on purpose: DPDK's own thread may be about to set it when the device is
    /// dropped.
    removed: &'static AtomicBool,
    /// Whether its queues can be used.
    started: AtomicBool,
}

/// The number of the port of a device that DPDK has, by the device's name.
pub(super) fn port_by_name(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero and lives across the call.
    u16::try_from(unsafe { ffi::td_port_by_name(name.as_ptr()) }).ok()
}

impl Device {
    /// Adds the device that this string describes; `name` is its name in DPDK. DPDK runs, and nobody else adds or removes a device meanwhile.
    pub(super) fn add(arguments: &str, name: &str, namespace: File) -> io::Result<Device> {
        let arguments = CString::new(arguments)?;
        // SAFETY: the string ends with a zero and lives across the call.
        let outcome = unsafe { ffi::rte_dev_probe(arguments.as_ptr()) };
        if outcome < 0 {
            return Err(io::Error::from_raw_os_error(-outcome));
        }
        let port = port_by_name(name).ok_or(io::ErrorKind::NotFound)?;
        let removed: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let argument: *const AtomicBool = removed;
        // SAFETY: the handler has the signature that is asked for, and its argument lives as long as the program. That a device cannot
        // tell of its removal is no error.
        unsafe { ffi::td_watch(port, on_removal, argument.cast_mut().cast()) };
        Ok(Device { port, namespace, removed, started: AtomicBool::new(false) })
    }

    pub(super) fn info(&self) -> io::Result<Info> {
        let mut raw = RawInfo::default();
        // SAFETY: `raw` lives across the call and has the layout of the shim.
        match unsafe { ffi::td_info(self.port, &raw mut raw) } {
            0 => Ok(Info::new(&raw)),
            error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        }
    }

    /// Configures and starts the device; what it is then, and its queues. On an error, the step that failed with it.
    pub(super) fn start(self, setup: &Setup<'_>) -> Result<(Info, Vec<Queue>), (&'static str, io::Error)> {
        let pools: Vec<_> = setup.pools.iter().map(|pool| pool.as_ptr()).collect();
        if pools.is_empty() {
            return Err(("configure", io::ErrorKind::InvalidInput.into()));
        }
        let config = RawConfig {
            queues: pools.len() as u16,
            rx_descriptors: setup.descriptors,
            tx_descriptors: setup.descriptors,
            interrupts: u8::from(setup.interrupts),
            may_wait: u8::from(setup.may_wait),
            mtu: setup.mtu.unwrap_or(0) as u32,
            frame: setup.frame as u32,
            pools: pools.as_ptr(),
        };
        let mut raw = RawInfo::default();
        let mut step = ptr::null();
        // SAFETY: `config`, with the pools that it points to, `raw` and `step` live across the call and have the layouts of the shim.
        let outcome = unsafe { ffi::td_start(self.port, &raw const config, &raw mut raw, &raw mut step) };
        if outcome != 0 {
            // SAFETY: the shim sets this to one of its string literals before anything can fail.
            let step = unsafe { CStr::from_ptr(step) }.to_str().unwrap_or("start");
            return Err((step, io::Error::from_raw_os_error(outcome.wrapping_neg())));
        }
        self.started.store(raw.started != 0, Ordering::Relaxed);
        let alone = pools.len() == 1;
        let device = Arc::new(self);
        let queue = |(index, pool): (usize, &Arc<Pool>)| Queue {
            port: device.port,
            index: index as u16,
            device: Arc::clone(&device),
            pool: Arc::clone(pool),
            alone,
        };
        Ok((Info::new(&raw), setup.pools.iter().enumerate().map(queue).collect()))
    }

    pub(super) fn link_is_up(&self) -> bool {
        // SAFETY: the port exists as long as this.
        unsafe { ffi::td_link_is_up(self.port) != 0 }
    }

    /// Whether the device has disappeared from the machine.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Since the device was started.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        // SAFETY: the port exists as long as this, and all pointers are to variables that live across the call.
        unsafe {
            ffi::td_stats(
                self.port,
                &raw mut losses.missed,
                &raw mut losses.broken,
                &raw mut losses.no_buffer,
                &raw mut losses.unsent,
            );
        }
        losses
    }

    fn remove(&self) {
        let argument: *const AtomicBool = self.removed;
        // SAFETY: the port exists until this, and no queue of it does: queues hold the device.
        unsafe {
            ffi::td_unwatch(self.port, on_removal, argument.cast_mut().cast());
            ffi::td_remove(self.port);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _guard = super::open::one_at_a_time();
        let inode = |file: &File| file.metadata().map(|data| data.st_ino()).ok();
        let here = File::open("/proc/thread-self/ns/net").ok().and_then(|file| inode(&file));
        if here == inode(&self.namespace) {
            return self.remove();
        }
        // Drivers that ask the kernel to undo something name an interface by its number: in another namespace it would be another's.
        thread::scope(|scope| {
            let inside = || match sys::enter_network_namespace(self.namespace.as_fd()) {
                Ok(()) | Err(_) => self.remove(),
            };
            // Joined by the scope. If no thread can be had, the process is about to end anyhow.
            let _ = thread::Builder::new().spawn_scoped(scope, inside);
        });
    }
}

/// DPDK calls this when a device has disappeared.
extern "C" fn on_removal(_: u16, _: c_int, argument: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: `Device::add` passed a flag that lives as long as the program.
    unsafe { &*argument.cast_const().cast::<AtomicBool>() }.store(true, Ordering::Relaxed);
    0
}

/// One queue of each direction. There is one of these for each, which is what makes `&mut` enough to keep threads apart.
pub(super) struct Queue {
    port: u16,
    index: u16,
    device: Arc<Device>,
    pool: Arc<Pool>,
    /// The device has no other queue.
    alone: bool,
}

impl Queue {
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The number of the queue; the first one answers for the device.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// Receives up to `count` packets, at most [`BURST`]. Never blocks. Returns how many were passed to `each`.
    #[inline]
    pub(super) fn receive(&mut self, count: usize, mut each: impl FnMut(Arrived)) -> usize {
        // Not initialised: that would cost as much as receiving.
        let mut packets = [const { MaybeUninit::<RawPacket>::uninit() }; BURST];
        if !self.is_started() {
            return 0;
        }
        let wanted = count.min(BURST) as u16;
        // SAFETY: the port is started, the queue is used by nobody else, and `packets` has room for `wanted`.
        let received = unsafe { ffi::td_receive(self.port, self.index, packets.as_mut_ptr().cast(), wanted) };
        for packet in &packets[..usize::from(received)] {
            // SAFETY: the shim filled in as many packets, whose mbufs are the caller's.
            each(unsafe { Arrived::new(packet.assume_init()) });
        }
        usize::from(received)
    }

    /// Sends packets from the front of `leaving`, and removes those that were sent. Returns how many. Never blocks.
    #[inline]
    pub(super) fn send(&mut self, leaving: &mut Vec<Leaving>) -> usize {
        if !self.is_started() {
            return 0;
        }
        let wanted = leaving.len().min(BURST) as u16;
        // SAFETY: the port is started, the queue is used by nobody else, and `leaving` has as many mbufs,
        // which are owned.
        let sent = unsafe { ffi::td_send(self.port, self.index, Leaving::as_raw(leaving), wanted) };
        let sent = usize::from(sent).min(leaving.len());
        // These belong to the device now.
        leaving.drain(..sent).for_each(std::mem::forget);
        sent
    }

    /// Whether the device could be started: a memif client, whether it found a server to connect to.
    pub(super) fn is_started(&self) -> bool {
        self.device.started.load(Ordering::Relaxed)
    }

    /// Starts a device again that could not start, or lost the other end. Only if it has no other queue, which somebody could be using.
    pub(super) fn revive(&mut self) {
        if self.alone {
            // SAFETY: the port exists as long as the device, is configured, and has only this queue, which is not in use.
            let outcome = unsafe { ffi::td_restart(self.port) };
            self.device.started.store(outcome == 0, Ordering::Relaxed);
        }
    }

    /// Asks the device to wake whoever waits for the descriptor that is returned; `None` if it cannot.
    pub(super) fn arm(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the port is started as long as the device exists.
        let descriptor = unsafe {
            if ffi::rte_eth_dev_rx_intr_enable(self.port, self.index) != 0 {
                return None;
            }
            ffi::rte_eth_dev_rx_intr_ctl_q_get_fd(self.port, self.index)
        };
        // SAFETY: the descriptor of a device whose descriptors stay open as long as it exists: `open` asks only those for interrupts.
        (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Ends what [`Queue::arm`] asked for.
    pub(super) fn disarm(&self) {
        // SAFETY: the port is started as long as the device exists.
        unsafe { ffi::rte_eth_dev_rx_intr_disable(self.port, self.index) };
    }
}

/// The network namespace of this thread.
pub(super) fn namespace() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}
