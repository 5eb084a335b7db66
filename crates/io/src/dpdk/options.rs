//! How DPDK and its ports are set up.

/// Whether packets' memory lies in huge pages. Without them DPDK is two to four times slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HugePages {
    /// In huge pages if enough are free, else without.
    #[default]
    IfFree,
    /// In huge pages, or not at all.
    Require,
    /// Without.
    Avoid,
}

/// How DPDK's environment is started; that happens once in a process, so the first port that is opened decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EalOptions {
    /// Whether to use huge pages.
    pub huge_pages: HugePages,
    /// Memory for packets in MiB. Without huge pages it is the limit for all ports together; with them it is what has to be free at the start,
    /// and more is taken if more is needed.
    pub memory_mb: u32,
}

impl Default for EalOptions {
    fn default() -> EalOptions {
        EalOptions { huge_pages: HugePages::IfFree, memory_mb: 256 }
    }
}

/// How a DPDK port is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkOptions {
    /// How DPDK is started, if it has not been yet.
    pub eal: EalOptions,
    /// How many queues of each direction; each is a [`super::DpdkPort`] for one worker. Devices with receive-side scaling spread packets over them
    /// by addresses and ports, so that the packets of a flow stay together.
    pub queues: usize,
    /// The processor on which each queue will be worked: its buffers are on that processor's socket. Queues beyond are on the device's.
    pub cores: Vec<usize>,
    /// The most bytes of a packet after its Ethernet header. `None`: the interface's own MTU where the device has one, else 9202,
    /// which is a frame of 9,216 bytes.
    pub mtu: Option<usize>,
    /// Packets that wait in a queue of the device; the device may change it to what it can do.
    pub descriptors: u16,
    /// Packet buffers for each queue. `None`: enough for the descriptors of both directions and a few batches.
    pub buffers: Option<u32>,
    /// Bytes of a buffer, without its headroom of 128. `None`: 2048, or a whole frame where the device cannot use several buffers for one.
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
