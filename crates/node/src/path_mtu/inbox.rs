//! [`ReportInbox`]: hands reports from the workers to the thread that checks them.

use crate::host::PuntKind;
use packet::{CpuReason, Packet, ReasonTable};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of reports that wait.
const CAPACITY: usize = 256;

/// ICMP errors that wait for a check. A full inbox loses reports; a worker does not wait.
pub(crate) struct ReportInbox {
    sender: SyncSender<Vec<u8>>,
    receiver: Mutex<Option<Receiver<Vec<u8>>>>,
    lost: AtomicU64,
}

impl Default for ReportInbox {
    fn default() -> ReportInbox {
        let (sender, receiver) = sync_channel(CAPACITY);
        ReportInbox { sender, receiver: Mutex::new(Some(receiver)), lost: AtomicU64::new(0) }
    }
}

impl ReportInbox {
    /// Copies a punted packet into the inbox if it is an ICMP error to an address of the gateway.
    pub fn offer(&self, packet: &Packet, reason: CpuReason, reasons: &ReasonTable) {
        if PuntKind::from_reason(&reasons.cpu_name(reason)) == Some(PuntKind::IcmpError)
            && self.sender.try_send(packet.bytes().to_vec()).is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the reading end. `None` if a thread has it already.
    pub fn take_receiver(&self) -> Option<Receiver<Vec<u8>>> {
        self.receiver.lock().take()
    }

    /// Returns the number of reports that found the inbox full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
