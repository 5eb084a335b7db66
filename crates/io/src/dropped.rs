//! [`DeviceDrops`]: what an interface's device dropped after a socket had given it packets.
//!
//! An interface without a carrier takes packets and drops them, and so does a veth end whose other end is down, or has a smaller MTU. The sender is told that they were
//! sent; only the interface counts them (`tx_dropped`).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The most bytes of the kernel's list that are read: some thousands of interfaces.
const MOST: usize = 1 << 20;

/// Follows the counter of one interface.
pub(crate) struct DeviceDrops {
    /// The kernel's list of a network namespace, wherever the thread that reads it is.
    list: File,
    name: String,
    seen: u64,
}

impl DeviceDrops {
    /// Of the interface of this name in the calling thread's network namespace; `None` where the kernel shows no list.
    pub(crate) fn of(name: &str) -> Option<DeviceDrops> {
        DeviceDrops::from_list(File::open("/proc/thread-self/net/dev").ok()?, name)
    }

    /// With the list that another process had opened.
    pub(crate) fn from_descriptor(list: OwnedFd, name: &str) -> Option<DeviceDrops> {
        DeviceDrops::from_list(File::from(list), name)
    }

    fn from_list(list: File, name: &str) -> Option<DeviceDrops> {
        let mut drops = DeviceDrops { list, name: name.to_owned(), seen: 0 };
        drops.seen = drops.dropped()?;
        Some(drops)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.list.as_fd()
    }

    /// How many packets the device has dropped since this was asked last. Those of other senders are among them.
    pub(crate) fn take(&mut self) -> u64 {
        // An interface that is gone drops nothing; another one of its name begins at 0.
        let now = self.dropped().unwrap_or(self.seen);
        now.saturating_sub(std::mem::replace(&mut self.seen, now))
    }

    fn dropped(&self) -> Option<u64> {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        while text.len() < MOST {
            match self.list.read_at(&mut piece, text.len() as u64).ok()? {
                0 => break,
                count => text.extend_from_slice(&piece[..count]),
            }
        }
        tx_dropped(&String::from_utf8_lossy(&text), &self.name)
    }
}

/// The column of an interface in /proc/net/dev.
fn tx_dropped(list: &str, name: &str) -> Option<u64> {
    let of = |line: &str| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    let columns = list.lines().find_map(of)?;
    // Eight of receiving, then bytes, packets, errors and drops of sending.
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
