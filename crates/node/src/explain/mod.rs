//! Why a packet went where it did.
//!
//! This module answers two questions on a running node: *what would become of this packet* ([`Node::explain`]), and *what became of the packets
//! that pass, and why* ([`Node::trace`]). The program is run by [`interp::Explainer`] on a snapshot of the node's tables, on the thread of
//! whoever asks. Workers only copy packets, while somebody traces.
//!
//! | what | where |
//! |---|---|
//! | which packets | `filter.rs` |
//! | the copies, around a worker's engine | `tap.rs` |
//! | a trace | `live.rs` |
//! | what is said of a packet | `answer.rs` |
//! | a packet that goes from process to process: its mark, what was done with it, and what each process says of it | `marks.rs`, `marked.rs`, `followed.rs` |
//! | who says it: an explainer for each part of a program | `told.rs` |
//! | what a flow cache keeps of a packet's way | `offloaded.rs` |
//! | a trace as a client asks for it | `serve.rs` |

pub mod answer;
pub mod filter;
mod followed;
mod live;
mod marked;
mod marks;
pub mod offloaded;
mod serve;
mod tap;
mod told;

pub use followed::{CameFrom, FollowedPart, InTier, machine};
pub use live::{LiveTrace, MAX_PACKETS, MAX_TIME, Next};
pub use marked::{Came, Followed, MAX_RECORDS, Record, Spent};
pub use serve::{PortName, TraceAnswer, TraceOf};
pub use tap::{Fate, MAX_SESSIONS, Wanted};
pub(crate) use tap::{Tapped, Taps};
pub use told::{Arrival, CacheInput, End, Explained, Onward, Part, Teller, TierPorts, Told};

use crate::config::Leads;
use crate::device::Node;
use answer::{Arrived, Explanation};
use ir::Pipeline;
use offloaded::{CannotOffload, Offloaded};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// What a node is like at one moment.
pub(crate) struct Present {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// It, or what of it is here, with what controllers have written, and packets added.
    pub explained: Box<dyn Explained>,
}

/// Why there is no explanation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CannotExplain {
    /// Nothing runs.
    #[error("no program runs on this node; a controller sets one (SetForwardingPipelineConfig)")]
    NoProgram,
    /// The packet is longer than packets are.
    #[error("the packet has {0} bytes; the longest has {most}", most = packet::MAX_LEN)]
    TooLong(usize),
    /// As many as there may be.
    #[error("there are {MAX_SESSIONS} traces on this node already; end one")]
    TooMany,
    /// It has no port there.
    #[error(
        "this node has no {0}, so no such packet comes; name first the node that packets come to, and then those of the tiers below"
    )]
    NoSuchPort(&'static str),
    /// Of what a flow cache keeps.
    #[error(transparent)]
    Offload(#[from] offloaded::CannotOffload),
    /// A bug.
    #[error("the explainer does not take this program, which is a bug of terrace")]
    Bug,
}

/// An answer to what would become of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WhatIf {
    /// The packet.
    pub packet: Arrived,
    /// What would become of it.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What a flow cache keeps of its way, if that was asked and it comes to one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<offloaded::Offloaded>,
}

impl Node {
    /// What would become of a packet that arrives on a port now, and why. Nothing of the node changes: no counter counts it. Meters are
    /// taken to be full.
    ///
    /// # Errors
    /// See [`CannotExplain`].
    pub fn explain(&self, bytes: &[u8], port: u32) -> Result<WhatIf, CannotExplain> {
        self.explain_from(bytes, port, None)
    }

    /// The same for a packet that comes from a tier in another process, with a bridge header: [`Leads::Up`] if that is the switch.
    ///
    /// # Errors
    /// See [`CannotExplain`].
    pub fn explain_from(&self, bytes: &[u8], port: u32, from: Option<Leads>) -> Result<WhatIf, CannotExplain> {
        if bytes.len() > packet::MAX_LEN {
            return Err(CannotExplain::TooLong(bytes.len()));
        }
        let Present { explained, .. } = self.present().ok_or(CannotExplain::NoProgram)?;
        let TierPorts { up, down } = explained.tier_ports();
        let port = match from {
            None => port,
            Some(Leads::Up) => *up.first().ok_or(CannotExplain::NoSuchPort("port to a switch elsewhere"))?,
            // Any: the way back is the same.
            Some(Leads::Down) if down.contains(&port) => port,
            Some(Leads::Down) => *down.first().ok_or(CannotExplain::NoSuchPort("port to tiers below elsewhere"))?,
        };
        let mut teller = Teller::new(&*explained, &self.settings).ok_or(CannotExplain::Bug)?;
        let now = io::now();
        let told = explained.tell(&mut teller, Arrival { bytes, port, now, mark: 0 }).ok_or(CannotExplain::Bug)?;
        let explanation = Explanation::new(told, &explained.reasons(), explained.version());
        Ok(WhatIf { packet: Arrived::new(bytes, port, now), explanation, offload: None })
    }

    /// What of a packet's path a flow cache keeps, before the program or, if that is divided among tiers, before its lower half. `None`: the packet does not come to
    /// one here, as the switch serves it, or the tiers below are in another process. Tables are copied for it; registers are as at first.
    ///
    /// # Errors
    /// See [`CannotExplain`].
    pub fn offloaded(&self, bytes: &[u8], port: u32) -> Result<Option<Offloaded>, CannotExplain> {
        let caches = self.wings.caches.ok_or(CannotOffload::NoCaches)?;
        let Present { explained, .. } = self.present().ok_or(CannotExplain::NoProgram)?;
        let mut teller = Teller::new(&*explained, &self.settings).ok_or(CannotExplain::Bug)?;
        let now = io::now();
        let input = explained.cache_input(&mut teller, Arrival { bytes, port, now, mark: 0 });
        Ok(input.map(|input| caches.explain(&input, &self.settings, now)).transpose()?)
    }

    /// Begins to trace packets that pass: at most so many (up to [`MAX_PACKETS`]), for at most so long (up to [`MAX_TIME`]).
    ///
    /// # Errors
    /// [`CannotExplain::TooMany`]; of packets that are to be followed, also if none come here by a front port.
    pub fn trace(&self, mut wanted: Wanted, packets: u64, time: Duration) -> Result<LiveTrace<'_>, CannotExplain> {
        if wanted.follow {
            let Present { explained, .. } = self.present().ok_or(CannotExplain::NoProgram)?;
            if !explained.has_front_ports() {
                return Err(CannotExplain::NoSuchPort("switch, and no front ports"));
            }
            let TierPorts { up, down } = explained.tier_ports();
            wanted.inner_ports = [down, up].concat();
        }
        LiveTrace::begin(self, wanted, packets, time).ok_or(CannotExplain::TooMany)
    }

    /// What is to be explained by; `None`: nothing runs.
    pub(crate) fn present(&self) -> Option<Present> {
        let inner = self.inner();
        let engine = &inner.current.as_ref()?.engine;
        Some(Present { pipeline: engine.pipeline().clone(), explained: engine.explained() })
    }
}
