//! A trace as requested by a client, answered with one document per packet.

use crate::device::Node;
use crate::explain::filter::{BpfInstruction, PacketFilter};
use crate::explain::trace_json::TraceJson;
use crate::explain::{MAX_PACKETS, MAX_TIME, NextPacket, TraceFilter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Interval of `Waiting` responses. Sending one detects a client that has disconnected.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of checks whether the client still listens.
const CLIENT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Trace request of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Selects packets that this filter accepts; `None`: all.
    #[serde(default)]
    pub filter: Option<Vec<BpfInstruction>>,
    /// Selects packets that arrive on this port.
    #[serde(default)]
    pub port: Option<u32>,
    /// Selects packets with a drop. If packets are followed, also selects those sent to another
    /// tier, which may drop them ([`crate::admin::cross_node::CrossNodeTrace::drops`]).
    #[serde(default)]
    pub drops: bool,
    /// Like `drops`, for drops with this reason.
    #[serde(default)]
    pub reason: Option<String>,
    /// Gives the packets trace ids, by which tiers in other processes recognise them
    /// ([`crate::Node::trace_parts`]).
    #[serde(default)]
    pub follow: bool,
    /// Maximum number of packets, up to [`MAX_PACKETS`].
    pub packets: u64,
    /// Maximum duration in seconds, up to [`MAX_TIME`].
    pub seconds: u64,
}

/// Number and name of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortName {
    /// Number by which the program knows the port.
    pub number: u32,
    /// Device of the port.
    pub name: String,
}

/// Responses to a trace request: `Begun`, then `Packet` and `Waiting`, then `Ended`; or only
/// `Refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trace", rename_all = "snake_case")]
pub enum TraceResponse {
    /// The trace has started.
    Begun {
        /// Names of the ports.
        ports: Vec<PortName>,
    },
    /// A packet.
    Packet(Box<TraceJson>),
    /// No packet arrived for a second.
    Waiting {
        /// Number of matching packets that were lost because the queue was full.
        lost: u64,
    },
    /// The trace has ended.
    Ended {
        /// Number of packets shown.
        shown: u64,
        /// Number of matching packets that were lost because the queue was full.
        lost: u64,
    },
    /// The trace cannot start.
    Refused {
        /// Reason and fix.
        message: String,
    },
}

impl TraceRequest {
    fn wanted(&self) -> Result<TraceFilter, String> {
        let most = MAX_TIME.as_secs();
        if !(1..=MAX_PACKETS).contains(&self.packets) {
            return Err(format!("a trace shows 1 to {MAX_PACKETS} packets, not {}", self.packets));
        }
        if !(1..=most).contains(&self.seconds) {
            return Err(format!("a trace lasts 1 to {most} seconds, not {}", self.seconds));
        }
        let filter = self.filter.as_deref().map(PacketFilter::new).transpose().map_err(|error| error.to_string())?;
        let (port, drops, reason, follow) = (self.port, self.drops, self.reason.clone(), self.follow);
        Ok(TraceFilter { filter, port, drops, reason, follow, inner_ports: Vec::new() })
    }
}

impl Node {
    /// Runs a trace. Passes the responses to `say` until the trace ends or `listens` returns
    /// `false`.
    ///
    /// # Errors
    /// Returns the error of `say`, which ends the trace.
    pub fn serve_trace(
        &self,
        of: &TraceRequest,
        mut listens: impl FnMut() -> bool,
        mut say: impl FnMut(TraceResponse) -> io::Result<()>,
    ) -> io::Result<()> {
        let begun = of.wanted().and_then(|wanted| {
            let time = Duration::from_secs(of.seconds);
            self.trace(wanted, of.packets, time).map_err(|error| error.to_string())
        });
        let mut trace = match begun {
            Ok(trace) => trace,
            Err(message) => return say(TraceResponse::Refused { message }),
        };
        let counts = self.counts();
        let ports: BTreeMap<u32, &str> =
            counts.iter().flat_map(|w| &w.ports).map(|(number, port)| (*number, port.name.as_str())).collect();
        let ports = ports.into_iter().map(|(number, name)| PortName { number, name: name.to_owned() });
        say(TraceResponse::Begun { ports: ports.collect() })?;
        let (mut said, mut looked) = (Instant::now(), Instant::now());
        loop {
            match trace.next(CLIENT_POLL_INTERVAL) {
                NextPacket::Packet(traced) => {
                    say(TraceResponse::Packet(traced))?;
                    said = Instant::now();
                }
                NextPacket::Ended => return say(TraceResponse::Ended { shown: trace.shown(), lost: trace.lost() }),
                NextPacket::Waiting if said.elapsed() >= KEEPALIVE_INTERVAL => {
                    say(TraceResponse::Waiting { lost: trace.lost() })?;
                    said = Instant::now();
                }
                NextPacket::Waiting => {}
            }
            if looked.elapsed() >= CLIENT_POLL_INTERVAL {
                looked = Instant::now();
                if !listens() {
                    return Ok(());
                }
            }
        }
    }
}
