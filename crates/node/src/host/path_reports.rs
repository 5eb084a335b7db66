//! [`PathReports`]: hands ICMP errors from the workers to the thread that checks what they report about
//! paths (`crate::path_mtu`).

use packet::Packet;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of reports that wait.
const CAPACITY: usize = 256;

/// ICMP errors that wait for a check. A full queue loses reports; a worker does not wait.
pub(crate) struct PathReports {
    sender: SyncSender<Vec<u8>>,
    receiver: Mutex<Option<Receiver<Vec<u8>>>>,
    lost: AtomicU64,
}

impl Default for PathReports {
    fn default() -> PathReports {
        let (sender, receiver) = sync_channel(CAPACITY);
        PathReports { sender, receiver: Mutex::new(Some(receiver)), lost: AtomicU64::new(0) }
    }
}

impl PathReports {
    /// Copies an ICMP error to an address of the gateway.
    pub fn offer(&self, packet: &Packet) {
        if self.sender.try_send(packet.bytes().to_vec()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the reading end. `None` if a thread has it already.
    pub fn take_receiver(&self) -> Option<Receiver<Vec<u8>>> {
        self.receiver.lock().take()
    }

    /// Returns the number of reports that found the queue full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
