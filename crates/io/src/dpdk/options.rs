//! Configuration of DPDK and its ports.

/// Use of huge pages for packet memory. Without them, DPDK is two to four times slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Use huge pages if enough are free.
    #[default]
    IfFree,
    /// Require huge pages.
    Require,
    /// Do not use huge pages.
    Avoid,
}

/// Options of DPDK's environment. It starts once per process, so the first port's options apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EalOptions {
    /// Use of huge pages.
    pub huge_pages: HugePages,
    /// Memory for packets in MiB. Without huge pages, it is the limit for all ports together. With
    /// them, it must be free at the start, and more is allocated if needed.
    pub memory_mb: u32,
}

impl Default for EalOptions {
    fn default() -> EalOptions {
        EalOptions { huge_pages: HugePages::IfFree, memory_mb: 256 }
    }
}

/// Options of a DPDK port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkOptions {
    /// Options of DPDK's environment, if it is not running yet.
    pub eal: EalOptions,
    /// Number of queues per direction. Each is a [`super::DpdkPort`] for one worker. Devices with
    /// receive-side scaling distribute packets by addresses and ports, so that a flow stays on one
    /// queue.
    pub queues: usize,
    /// The processor of each queue's worker. The queue's buffers are on that processor's NUMA node.
    /// Further queues use the device's node.
    pub cores: Vec<usize>,
    /// Maximum number of bytes of a packet after its Ethernet header. `None`: the MTU of the
    /// device's interface, or 9202 (frames of 9,216 bytes) without one.
    pub mtu: Option<usize>,
    /// Size of the device's queues, in packets; the device may change it to a supported value.
    pub descriptors: u16,
    /// Number of packet buffers per queue. `None`: enough for the descriptors of both directions
    /// and a few batches.
    pub buffers: Option<u32>,
    /// Bytes of a buffer without its headroom of 128. `None`: 2048, or a whole frame if the device
    /// does not support several segments.
    pub buffer_len: Option<u16>,
}

impl Default for DpdkOptions {
    fn default() -> DpdkOptions {
        DpdkOptions {
            eal: EalOptions::default(),
            queues: 1,
            cores: Vec::new(),
            mtu: None,
            descriptors: 1024,
            buffers: None,
            buffer_len: None,
        }
    }
}
