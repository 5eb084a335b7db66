//! [`DeviceDrops`]: packets that an interface's device dropped after it accepted them from a
//! socket.
//!
//! An interface without a carrier accepts packets and drops them. So does a veth interface whose
//! peer is down or has a smaller MTU. The socket reports success; only the interface counts the
//! packets (`tx_dropped`).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Maximum number of bytes of the kernel's list that are read: some thousands of interfaces.
const MAX_LIST_BYTES: usize = 1 << 20;

/// Reads the drop counter of one interface.
pub(crate) struct DeviceDrops {
    /// The kernel's list of a network namespace; it stays that namespace's list in any thread.
    list: File,
    name: String,
    seen: u64,
}

impl DeviceDrops {
    /// Opens the counter of an interface in the calling thread's network namespace. `None` if the
    /// kernel provides no list.
    pub(crate) fn of(name: &str) -> Option<DeviceDrops> {
        DeviceDrops::from_list(File::open("/proc/thread-self/net/dev").ok()?, name)
    }

    /// Uses a list that another process opened.
    pub(crate) fn from_descriptor(list: OwnedFd, name: &str) -> Option<DeviceDrops> {
        DeviceDrops::from_list(File::from(list), name)
    }

    fn from_list(list: File, name: &str) -> Option<DeviceDrops> {
        let mut drops = DeviceDrops { list, name: name.to_owned(), seen: 0 };
        drops.seen = drops.read_tx_dropped()?;
        Some(drops)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.list.as_fd()
    }

    /// Returns the number of packets that the device dropped since the last call. They can include
    /// packets of other senders.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        // A removed interface drops nothing; a new one of the same name counts from 0.
        let now = self.read_tx_dropped().unwrap_or(self.seen);
        now.saturating_sub(std::mem::replace(&mut self.seen, now))
    }

    /// Reads the list of interfaces, and returns the count of this one; `None` if the list has no
    /// line for it.
    fn read_tx_dropped(&self) -> Option<u64> {
        let mut text = Vec::new();
        let mut part = [0; 4096];
        while text.len() < MAX_LIST_BYTES {
            match self.list.read_at(&mut part, text.len() as u64).ok()? {
                0 => break,
                count => text.extend_from_slice(&part[..count]),
            }
        }
        tx_dropped(&String::from_utf8_lossy(&text), &self.name)
    }
}

/// Returns the `tx_dropped` column of an interface in /proc/net/dev.
fn tx_dropped(list: &str, name: &str) -> Option<u64> {
    let of = |line: &str| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    let columns = list.lines().find_map(of)?;
    // Eight receive columns, then sent bytes, packets, errors and drops.
    columns.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::tx_dropped;

    #[test]
    fn the_column_is_found() {
        let list = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n eth10:1 0 0 0 0 0 0 0 0 0 0 77 0 0 0 0\n";
        assert_eq!(tx_dropped(list, "lo"), Some(12));
        assert_eq!(tx_dropped(list, "eth10"), Some(77));
        assert_eq!(tx_dropped(list, "eth1"), None);
        assert_eq!(tx_dropped("", "lo"), None);
    }
}
