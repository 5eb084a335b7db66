//! A trace as a client asks for it and is answered: one document a packet.

use crate::device::Node;
use crate::explain::answer::Traced;
use crate::explain::filter::{Filter, Instruction};
use crate::explain::{MAX_PACKETS, MAX_TIME, Next, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// How often a client is told that nothing came, by which a node notices that it has gone.
const WAITING: Duration = Duration::from_secs(1);
/// How often it is looked whether the client still listens.
const LOOK: Duration = Duration::from_millis(200);

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceOf {
    /// Packets that this program takes; all without one.
    #[serde(default)]
    pub filter: Option<Vec<Instruction>>,
    /// Packets that come in on this port.
    #[serde(default)]
    pub port: Option<u32>,
    /// Packets of which something is dropped; and if they are followed, those that go on to another tier, which may drop them ([`crate::admin::elsewhere::Story::drops`]).
    #[serde(default)]
    pub drops: bool,
    /// The same for this reason.
    #[serde(default)]
    pub reason: Option<String>,
    /// They get marks, by which the tiers in other processes know them again ([`crate::Node::followed`]).
    #[serde(default)]
    pub follow: bool,
    /// So many packets at most; up to [`MAX_PACKETS`].
    pub packets: u64,
    /// For so many seconds at most; up to [`MAX_TIME`].
    pub seconds: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortName {
    /// By which the program knows it.
    pub number: u32,
    /// Its device.
    pub name: String,
}

/// What it is answered, in this order: `Begun`, then `Packet` and `Waiting`, then `Ended`. Or `Refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "trace", rename_all = "snake_case")]
pub enum TraceAnswer {
    /// Packets are looked at from now on.
    Begun {
        /// The names of the ports.
        ports: Vec<PortName>,
    },
    /// A packet.
    Packet(Box<Traced>),
    /// None has come for a second.
    Waiting {
        /// Packets that were asked for and could not be kept until they are explained.
        lost: u64,
    },
    /// That was all.
    Ended {
        /// Packets.
        shown: u64,
        /// As above.
        lost: u64,
    },
    /// It cannot be.
    Refused {
        /// Why, and the mend.
        message: String,
    },
}

impl TraceOf {
    fn wanted(&self) -> Result<Wanted, String> {
        let most = MAX_TIME.as_secs();
        if !(1..=MAX_PACKETS).contains(&self.packets) {
            return Err(format!("a trace shows 1 to {MAX_PACKETS} packets, not {}", self.packets));
        }
        if !(1..=most).contains(&self.seconds) {
            return Err(format!("a trace lasts 1 to {most} seconds, not {}", self.seconds));
        }
        let filter = self.filter.as_deref().map(Filter::new).transpose().map_err(|error| error.to_string())?;
        let (port, drops, reason, follow) = (self.port, self.drops, self.reason.clone(), self.follow);
        Ok(Wanted { filter, port, drops, reason, follow, inner_ports: Vec::new() })
    }
}

impl Node {
    /// Carries out a trace: `say` is given one answer after the other, until the trace ends or `listens` says no.
    ///
    /// # Errors
    /// Those of `say`; the trace has ended then.
    pub fn serve_trace(
        &self,
        of: &TraceOf,
        mut listens: impl FnMut() -> bool,
        mut say: impl FnMut(TraceAnswer) -> io::Result<()>,
    ) -> io::Result<()> {
        let begun = of.wanted().and_then(|wanted| {
            let time = Duration::from_secs(of.seconds);
            self.trace(wanted, of.packets, time).map_err(|error| error.to_string())
        });
        let mut trace = match begun {
            Ok(trace) => trace,
            Err(message) => return say(TraceAnswer::Refused { message }),
        };
        let counts = self.counts();
        let ports: BTreeMap<u32, &str> =
            counts.iter().flat_map(|w| &w.ports).map(|(number, port)| (*number, port.name.as_str())).collect();
        let ports = ports.into_iter().map(|(number, name)| PortName { number, name: name.to_owned() });
        say(TraceAnswer::Begun { ports: ports.collect() })?;
        let (mut said, mut looked) = (Instant::now(), Instant::now());
        loop {
            match trace.next(LOOK) {
                Next::Packet(traced) => {
                    say(TraceAnswer::Packet(traced))?;
                    said = Instant::now();
                }
                Next::Ended => return say(TraceAnswer::Ended { shown: trace.shown(), lost: trace.lost() }),
                Next::Waiting if said.elapsed() >= WAITING => {
                    say(TraceAnswer::Waiting { lost: trace.lost() })?;
                    said = Instant::now();
                }
                Next::Waiting => {}
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if !listens() {
                    return Ok(());
                }
            }
        }
    }
}
