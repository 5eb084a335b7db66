//! [`TraversalExplanation`]: a packet's traversal as text: lookups, decisive bits, segments, and
//! reasons why a part is not cached.

use crate::cache::SegmentTables;
use crate::effects::{CallKind, call_kind};
use crate::record::{ExecutedKind, ExecutionRecord};
use crate::segment::{LookupDependency, RecordedTraversal, SegmentError, Uncacheable};
use interp::block_hook::{BlockExit, BlockHook, BlockStepper, Op};
use ir::{Entity, Pipeline, TableId};
use std::fmt;

/// Key field of a table that was applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplainedKey {
    /// Control-plane name.
    pub name: String,
    /// Value of the packet, in hex.
    pub value: String,
    /// Bits that decided the result, in hex; 0: none.
    pub mask: String,
    /// Number of decisive bits, and the width of the field in bits.
    pub bits: (u32, u32),
}

/// Table on the packet's path, with the code up to the next table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplainedUnit {
    /// Name of the table; `None` for the code before the first table.
    pub table: Option<String>,
    /// Key fields.
    pub keys: Vec<ExplainedKey>,
    /// Matching entry, as text; `None` for a miss.
    pub entry: Option<String>,
    /// Calls that each packet makes itself.
    pub live_calls: Vec<String>,
    /// Reason why the unit is not cached.
    pub uncacheable: Option<Uncacheable>,
}

/// Explanation of a packet's traversal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraversalExplanation {
    /// Units in order.
    pub units: Vec<ExplainedUnit>,
    /// First and last unit of each segment of the split, from 0. Empty if nothing is cached. A
    /// cache of whole traversals reports the split that it would use.
    pub segments: Vec<(usize, usize)>,
    /// Number of bits that a segment of the whole path matches on, if it can be one segment.
    pub whole_match_bits: Option<u32>,
}

impl TraversalExplanation {
    /// Returns why a part of the traversal is not cached.
    pub fn uncacheable_reason(&self) -> Option<Uncacheable> {
        self.units.iter().find_map(|explained| explained.uncacheable)
    }
}

impl fmt::Display for TraversalExplanation {
    /// Writes whether the path is cached, then each unit with its segment, keys, entry and live
    /// calls.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.uncacheable_reason(), self.whole_match_bits) {
            (None, Some(bits)) => {
                writeln!(f, "offloaded: the whole path is cached, for packets that agree in {bits} bits")?
            }
            (None, None) => {
                writeln!(f, "offloaded in segments: a key depends on a value that differs between packets")?
            }
            (Some(reason), _) => writeln!(f, "not offloaded: {}", reason.description())?,
        }
        for (number, explained) in self.units.iter().enumerate() {
            let table = explained.table.as_deref().unwrap_or("before the first table");
            let mark = if explained.uncacheable.is_some() { "slow path" } else { "kept" };
            let segment = self.segments.iter().position(|(first, last)| (*first..=*last).contains(&number));
            let segment = segment.map_or(String::new(), |segment| format!(", piece {}", segment + 1));
            writeln!(f, "  {table}: {mark}{segment}")?;
            for key in &explained.keys {
                let ExplainedKey { name, value, mask, bits: (bits, width) } = key;
                writeln!(f, "    {name} = {value}, mask {mask}: {bits} of {width} bits decided")?;
            }
            match (&explained.table, &explained.entry) {
                (Some(_), Some(entry)) => writeln!(f, "    hit {entry}")?,
                (Some(_), None) => writeln!(f, "    miss")?,
                (None, _) => {}
            }
            for call in &explained.live_calls {
                writeln!(f, "    {call}: executed for each packet")?;
            }
            if let Some(reason) = explained.uncacheable {
                writeln!(f, "    {}", reason.description())?;
            }
        }
        Ok(())
    }
}

/// Runs one packet and explains its traversal.
pub(crate) struct CacheExplainer {
    pub caches: SegmentTables,
    pub explanation: TraversalExplanation,
}

impl BlockHook for CacheExplainer {
    fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit {
        let mut record = ExecutionRecord::default();
        let outcome = record.run_control(self.caches.recorder_facts(), stepper, 0);
        self.explanation = self.explain_record(stepper, &record, outcome);
        outcome
    }
}

impl CacheExplainer {
    /// Explains the traversal of a recorded packet. `outcome`: how the control ended.
    fn explain_record(
        &self,
        stepper: &BlockStepper<'_>,
        record: &ExecutionRecord,
        outcome: BlockExit,
    ) -> TraversalExplanation {
        let caches = &self.caches;
        let traversal = RecordedTraversal::new(caches.traversal_context(stepper), record, outcome);
        let unit_count = traversal.unit_count();
        let units: Vec<ExplainedUnit> =
            (0..unit_count).map(|unit| explain_unit(caches, &traversal, stepper, record, unit)).collect();
        let cacheable_count = units.iter().take_while(|explained| explained.uncacheable.is_none()).count();
        let whole_match_bits = match traversal.build_segment(stepper, 0, unit_count - 1) {
            Ok(segment) => Some(segment.mask.iter().map(|(_, mask)| mask.count_ones()).sum()),
            Err(_) => None,
        };
        let mut segments = Vec::new();
        if cacheable_count > 0 {
            segments = caches.segment_ranges(&traversal, stepper);
        }
        TraversalExplanation { units, segments, whole_match_bits }
    }
}

/// Explains a unit: its table and lookup, the calls that each packet makes itself, and why it is
/// not cached.
fn explain_unit(
    caches: &SegmentTables,
    traversal: &RecordedTraversal<'_>,
    stepper: &BlockStepper<'_>,
    record: &ExecutionRecord,
    unit: usize,
) -> ExplainedUnit {
    let pipeline = &caches.pipeline;
    let steps = traversal.unit_steps(unit);
    let lookup = traversal.dependency_of_unit(unit, stepper);
    let live_calls = steps.clone().filter_map(|step| {
        let Op::Call { index } = stepper.code().ops[record.steps[step].pc as usize] else { return None };
        let call = &stepper.code().calls[index as usize];
        (call_kind(call) == CallKind::Live).then(|| match call.object {
            Some(object) => format!("{} of {}", call.func.name(), pipeline.externs[object].preamble.name),
            None => call.func.name().to_owned(),
        })
    });
    let groups = steps.clone().filter_map(|step| match record.steps[step].kind {
        ExecutedKind::Apply { live: true, .. } => {
            Some("the member of the group, or the color of the entry's meter".to_owned())
        }
        _ => None,
    });
    let uncacheable = match traversal.build_segment(stepper, unit, unit) {
        Err(SegmentError::NotCacheable(reason)) => Some(reason),
        _ => None,
    };
    ExplainedUnit {
        table: lookup.map(|lookup| pipeline.tables[TableId(lookup.table)].preamble.name.clone()),
        keys: lookup.map(|lookup| explain_keys(pipeline, caches, lookup)).unwrap_or_default(),
        entry: lookup.and_then(|lookup| format_found_entry(pipeline, stepper, lookup)),
        live_calls: live_calls.chain(groups).collect(),
        uncacheable,
    }
}

/// Explains the key fields of a lookup: value, decisive bits, and their number.
fn explain_keys(pipeline: &Pipeline, caches: &SegmentTables, lookup: &LookupDependency) -> Vec<ExplainedKey> {
    let declared = &pipeline.tables[TableId(lookup.table)].keys;
    let hex = |words: &[u64]| format!("{:#x}", entries::big_from_words(words));
    let explained_key = |(field, offset): (&entries::PackedKeyField, usize)| {
        let (value, mask) = (&lookup.key[offset..offset + field.words], &lookup.mask[offset..offset + field.words]);
        let bits = mask.iter().map(|word| word.count_ones()).sum();
        ExplainedKey {
            name: declared[field.position].name.clone(),
            value: hex(value),
            mask: hex(mask),
            bits: (bits, field.width),
        }
    };
    caches.wildcard_trackers[lookup.table as usize].fields_with_offsets().map(explained_key).collect()
}

/// Returns the entry that a lookup found, as text; `None` for a miss.
fn format_found_entry(pipeline: &Pipeline, stepper: &BlockStepper<'_>, lookup: &LookupDependency) -> Option<String> {
    let table = TableId::from_index(lookup.table as usize);
    let entry = stepper.entry(lookup.table as usize, lookup.found_entry?)?;
    Some(entries::format_entry(pipeline, &entry.to_table_entry(pipeline, table)))
}
