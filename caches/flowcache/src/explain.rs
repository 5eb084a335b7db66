//! [`Explanation`]: a packet's traversal in words: what was looked up, which bits decided, and what of it a cache keeps, or why not.

use crate::cache::Caches;
use crate::effects::{CallKind, call_kind};
use crate::record::{Kind, Record};
use crate::segment::{Asked, Refused, Traversal, Uncacheable};
use interp::walk::{Detour, Op, Outcome, Walker};
use ir::{Entity, Pipeline, TableId};
use std::fmt;

/// A key of a table that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name in the control plane.
    pub name: String,
    /// What the packet had, in hex.
    pub value: String,
    /// The bits that decided, in hex; all 0: none did.
    pub mask: String,
    /// How many bits that are, of how many.
    pub bits: (u32, u32),
}

/// A table on the packet's way, with what was done from there to the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The table; `None` for what comes before the first.
    pub table: Option<String>,
    /// Its keys.
    pub keys: Vec<Key>,
    /// The entry, as text; `None` for a miss.
    pub entry: Option<String>,
    /// Calls that each packet makes again.
    pub live: Vec<String>,
    /// Why it is not kept.
    pub refused: Option<Uncacheable>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explanation {
    /// In order.
    pub stretches: Vec<Stretch>,
    /// The pieces that this cache cuts it into, or one that keeps whole traversals would if it cut them: first and last stretch, from 0. Empty if nothing is kept.
    pub pieces: Vec<(usize, usize)>,
    /// Bits of the packet's state that decide over the whole way, if all of it can be kept as one.
    pub whole: Option<u32>,
}

impl Explanation {
    /// Why not all of it is kept.
    pub fn refused(&self) -> Option<Uncacheable> {
        self.stretches.iter().find_map(|stretch| stretch.refused)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.refused(), self.whole) {
            (None, Some(bits)) => {
                writeln!(f, "offloaded: the whole way is kept, for packets that agree in {bits} bits")?
            }
            (None, None) => writeln!(f, "offloaded in pieces: a key depends on what differs from packet to packet")?,
            (Some(reason), _) => writeln!(f, "not offloaded: {}", reason.why())?,
        }
        for (number, stretch) in self.stretches.iter().enumerate() {
            let table = stretch.table.as_deref().unwrap_or("before the first table");
            let mark = if stretch.refused.is_some() { "slow path" } else { "kept" };
            let piece = self.pieces.iter().position(|(first, last)| (*first..=*last).contains(&number));
            let piece = piece.map_or(String::new(), |piece| format!(", piece {}", piece + 1));
            writeln!(f, "  {table}: {mark}{piece}")?;
            for key in &stretch.keys {
                let Key { name, value, mask, bits: (bits, width) } = key;
                writeln!(f, "    {name} = {value}, mask {mask}: {bits} of {width} bits decided")?;
            }
            match (&stretch.table, &stretch.entry) {
                (Some(_), Some(entry)) => writeln!(f, "    hit {entry}")?,
                (Some(_), None) => writeln!(f, "    miss")?,
                (None, _) => {}
            }
            for call in &stretch.live {
                writeln!(f, "    {call}: each packet asks again")?;
            }
            if let Some(reason) = stretch.refused {
                writeln!(f, "    {}", reason.why())?;
            }
        }
        Ok(())
    }
}

/// Runs one packet and explains it.
pub(crate) struct Teller {
    pub caches: Caches,
    pub told: Explanation,
}

impl Detour for Teller {
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        let mut record = Record::default();
        let outcome = record.run(self.caches.known(), walker, 0);
        self.told = self.explain(walker, &record, outcome);
        outcome
    }
}

impl Teller {
    fn explain(&self, walker: &Walker<'_>, record: &Record, outcome: Outcome) -> Explanation {
        let caches = &self.caches;
        let traversal = Traversal::new(caches.ground(walker), record, outcome);
        let units = traversal.units();
        let stretches: Vec<Stretch> =
            (0..units).map(|unit| stretch(caches, &traversal, walker, record, unit)).collect();
        let kept = stretches.iter().take_while(|stretch| stretch.refused.is_none()).count();
        let whole = match traversal.segment(walker, 0, units - 1) {
            Ok(segment) => Some(segment.mask.iter().map(|(_, mask)| mask.count_ones()).sum()),
            Err(_) => None,
        };
        let mut pieces = Vec::new();
        if kept > 0 {
            pieces = caches.pieces(&traversal, walker);
        }
        Explanation { stretches, pieces, whole }
    }
}

fn stretch(caches: &Caches, traversal: &Traversal<'_>, walker: &Walker<'_>, record: &Record, unit: usize) -> Stretch {
    let pipeline = &caches.pipeline;
    let steps = traversal.steps(unit);
    let asked = traversal.asked_in(unit, walker);
    let live = steps.clone().filter_map(|step| {
        let Op::Call { index } = walker.code().ops[record.steps[step].pc as usize] else { return None };
        let call = &walker.code().calls[index as usize];
        (call_kind(call) == CallKind::Live).then(|| match call.object {
            Some(object) => format!("{} of {}", call.func.name(), pipeline.externs[object].preamble.name),
            None => call.func.name().to_owned(),
        })
    });
    let groups = steps.clone().filter_map(|step| match record.steps[step].kind {
        Kind::Apply { live: true, .. } => {
            Some("the member of the group, or the colour of the entry's meter".to_owned())
        }
        _ => None,
    });
    let refused = match traversal.segment(walker, unit, unit) {
        Err(Refused::No(reason)) => Some(reason),
        _ => None,
    };
    Stretch {
        table: asked.map(|asked| pipeline.tables[TableId(asked.table)].preamble.name.clone()),
        keys: asked.map(|asked| keys(pipeline, caches, asked)).unwrap_or_default(),
        entry: asked.and_then(|asked| entry(pipeline, walker, asked)),
        live: live.chain(groups).collect(),
        refused,
    }
}

fn keys(pipeline: &Pipeline, caches: &Caches, asked: &Asked) -> Vec<Key> {
    let declared = &pipeline.tables[TableId(asked.table)].keys;
    let hex = |words: &[u64]| format!("{:#x}", entries::big_from_words(words));
    let one = |(field, at): (&entries::KeyField, usize)| {
        let (value, mask) = (&asked.key[at..at + field.words], &asked.mask[at..at + field.words]);
        let bits = mask.iter().map(|word| word.count_ones()).sum();
        Key {
            name: declared[field.position].name.clone(),
            value: hex(value),
            mask: hex(mask),
            bits: (bits, field.width),
        }
    };
    caches.witnesses[asked.table as usize].fields().map(one).collect()
}

fn entry(pipeline: &Pipeline, walker: &Walker<'_>, asked: &Asked) -> Option<String> {
    let table = TableId::from_index(asked.table as usize);
    let entry = walker.entry(asked.table as usize, asked.found?)?;
    Some(entries::format_entry(pipeline, &entry.to_table_entry(pipeline, table)))
}
