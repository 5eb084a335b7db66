//! One packet through several processes, asked of each by its control socket: one that passed ([`follow`]), or one that might ([`explain`]).
//!
//! Parts of a packet's story are joined by its mark and by its bytes: what one process sent with a bridge header is what the next one got. Which process is behind
//! which link nobody has to say.

use super::client::{AskError, ask};
use super::protocol::{Answer, Request};
use crate::config::Leads;
use crate::explain::answer::{Traced, Verdicted};
use crate::explain::{CameFrom, FollowedPart, Onward, WhatIf};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often those are asked that have not had the packet yet.
const LOOK: Duration = Duration::from_millis(5);
/// Processes that a packet is followed through; copies of it go to one each.
const MAX_PARTS: usize = 64;

/// What a process says of a packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Heard {
    /// Its control socket.
    pub node: PathBuf,
    /// By which it is seen whose clock is whose.
    pub machine: String,
    /// From its arrival on, the time since the process before had done with it, in nanoseconds; by two clocks if those are on two machines.
    pub on_the_way_ns: Option<i64>,
    /// Its part.
    #[serde(flatten)]
    pub part: FollowedPart,
}

/// What became of a packet behind the process where it came in.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Story {
    /// In the order of its way.
    pub parts: Vec<Heard>,
    /// Frames that somebody sent on and nobody of those asked has had.
    pub missing: Vec<Missing>,
}

impl Story {
    /// Whether any tier has dropped something of the packet, `reason` or for whatever reason.
    pub fn drops(&self, traced: &Traced, reason: Option<&str>) -> bool {
        let mut became = traced.became.iter().chain(self.parts.iter().flat_map(|heard| &heard.part.became));
        let dropped = |fate: &Verdicted| match fate {
            Verdicted::Drop { reason: why, .. } => reason.is_none_or(|wanted| wanted == why),
            _ => false,
        };
        became.any(dropped)
    }
}

/// A frame that was sent to another tier.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Missing {
    /// To which.
    pub leads: Leads,
    /// The port on which it left.
    pub port: u32,
    #[serde(skip)]
    hex: String,
    /// When its sender had done.
    #[serde(skip)]
    sent: Option<u64>,
}

fn sent(became: &[Verdicted], onward: &[Onward], done: Option<u64>) -> Vec<Missing> {
    let one = |onward: &Onward| match became.get(onward.verdict)? {
        Verdicted::Forward { port, hex, .. } => {
            Some(Missing { leads: onward.leads, port: *port, hex: hex.clone(), sent: done })
        }
        _ => None,
    };
    onward.iter().filter_map(one).collect()
}

/// Follows a packet that passed, from the process where it came in (`front`) through those of the other tiers. What they have not seen `patience` after it came is
/// missing; so is all of a packet that the first process does not remember any more.
///
/// # Errors
/// One of them cannot be asked.
pub fn follow(front: &Path, others: &[PathBuf], traced: &Traced, patience: Duration) -> Result<Story, AskError> {
    let mut story = Story::default();
    if traced.mark == 0 {
        return Ok(story);
    }
    let first = parts(front, traced.mark)?
        .into_iter()
        .rev()
        .find(|heard| heard.part.came == CameFrom::Front && heard.part.packet.at_ns == traced.packet.at_ns);
    let done = first.as_ref().and_then(|heard| heard.part.tiers.last()).map(|tier| tier.done_ns);
    let mut open = sent(&traced.became, &traced.onward, done);
    if first.is_none() {
        story.missing = open;
        return Ok(story);
    }
    story.parts.extend(first);
    let age = Duration::from_nanos(io::now().saturating_sub(traced.packet.at_ns));
    let deadline = Instant::now() + patience.saturating_sub(age);
    loop {
        let mut found = false;
        for missing in std::mem::take(&mut open) {
            match seek(front, others, traced.mark, &missing, &story.parts)? {
                Some(heard) if story.parts.len() < MAX_PARTS => {
                    let done = heard.part.tiers.last().map(|tier| tier.done_ns);
                    open.extend(sent(&heard.part.became, &heard.part.onward, done));
                    story.parts.push(heard);
                    found = true;
                }
                _ => open.push(missing),
            }
        }
        if open.is_empty() || (!found && Instant::now() >= deadline) {
            story.missing = open;
            return Ok(story);
        }
        if !found {
            std::thread::sleep(LOOK);
        }
    }
}

/// What a process says of packets with that mark; the newest last.
fn parts(node: &Path, mark: u16) -> Result<Vec<Heard>, AskError> {
    match ask(node, &Request::Followed { mark })? {
        Answer::Followed { machine, parts } => {
            let heard = |part| Heard { node: node.to_owned(), machine: machine.clone(), on_the_way_ns: None, part };
            Ok(parts.into_iter().map(heard).collect())
        }
        _ => Err(AskError::Refused(format!(
            "the node on {} answers something else than was asked for; is it of another version?",
            node.display()
        ))),
    }
}

/// Who has had that frame, and has not been named for it.
fn seek(
    front: &Path,
    others: &[PathBuf],
    mark: u16,
    missing: &Missing,
    known: &[Heard],
) -> Result<Option<Heard>, AskError> {
    let came = match missing.leads {
        Leads::Down => CameFrom::Above,
        Leads::Up => CameFrom::Below,
    };
    let nodes: Vec<&Path> = match missing.leads {
        Leads::Down => others.iter().map(PathBuf::as_path).collect(),
        Leads::Up => vec![front],
    };
    for node in nodes {
        let is_it = |heard: &Heard| {
            let part = &heard.part;
            let is_new = |known: &Heard| known.node != heard.node || known.part.packet != part.packet;
            part.came == came && part.packet.hex == missing.hex && known.iter().all(is_new)
        };
        if let Some(mut heard) = parts(node, mark)?.into_iter().rev().find(is_it) {
            heard.on_the_way_ns = missing.sent.map(|sent| heard.part.packet.at_ns.wrapping_sub(sent) as i64);
            return Ok(Some(heard));
        }
    }
    Ok(None)
}

/// What a process says of a packet that might come.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Asked {
    /// Its control socket.
    pub node: PathBuf,
    /// From which tier the packet came there; without, by a front port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Leads>,
    /// What it says.
    #[serde(flatten)]
    pub told: WhatIf,
}

/// What would become of a packet that arrives on a port of the first node, and of what that sends to the tiers below, which the others are asked in turn: they all
/// have the same tables, and the first that has a port to a switch answers for whichever it would be.
///
/// # Errors
/// One of them cannot be asked, or refuses; or none of the others has a port to a switch.
pub fn explain(nodes: &[PathBuf], bytes: &[u8], port: u32, offload: bool) -> Result<Vec<Asked>, AskError> {
    let Some((front, others)) = nodes.split_first() else { return Ok(Vec::new()) };
    let ask_one = |node: &Path, port: u32, hex: String, from: Option<Leads>| match ask(
        node,
        &Request::Explain { port, hex, from, offload },
    )? {
        Answer::Explained(told) => Ok(Asked { node: node.to_owned(), from, told: *told }),
        _ => Err(AskError::Refused("the node answers something else than was asked for".to_owned())),
    };
    let mut all = vec![ask_one(front, port, packet::hex(bytes), None)?];
    let Some((last, before)) = others.split_last() else { return Ok(all) };
    let mut next = 0;
    while next < all.len() {
        let explanation = &all[next].told.explanation;
        for missing in sent(&explanation.verdicts, &explanation.onward, None) {
            if all.len() >= MAX_PARTS {
                return Ok(all);
            }
            let answer = match missing.leads {
                Leads::Up => ask_one(front, 0, missing.hex, Some(Leads::Down))?,
                Leads::Down => {
                    let below = |node: &PathBuf| ask_one(node, 0, missing.hex.clone(), Some(Leads::Up));
                    match before.iter().find_map(|node| below(node).ok()) {
                        Some(answer) => answer,
                        None => below(last)?,
                    }
                }
            };
            all.push(answer);
        }
        next += 1;
    }
    Ok(all)
}
