//! Recording of trace events, with names and readable values.

use crate::exec_context::ExecContext;
use crate::frame::Frame;
use crate::lookup::HitTarget;
use crate::overseer::Overseer;
use crate::program::{ApplySite, Reg, WordIndex};
use crate::trace::{EntryHit, NamedValue, TraceEvent};
use entries::{StoredEntry, ValueFormat, big_from_words};
use ir::{ActionId, Entity, NamedType, Pipeline, SourceLoc, Type};
use num_bigint::BigUint;

/// Formats a value: the name of an error, of an enumeration member or of a serializable
/// enumeration's member if it has one, else the notation of [`ValueFormat`].
pub fn value_text(pipeline: &Pipeline, meaning: ValueFormat<'_>, bits: &BigUint) -> String {
    let named_type = meaning.type_name.and_then(|name| pipeline.named_types.iter().find(|(n, _)| n == name));
    if let Some((_, NamedType::SerializableEnum(_, members))) = named_type
        && let Some((name, _)) = members.iter().find(|(_, value)| value == bits)
    {
        return name.clone();
    }
    let member_name = |names: &[String]| usize::try_from(bits).ok().and_then(|index| names.get(index)).cloned();
    let name = match meaning.ty {
        Type::Error => member_name(&pipeline.errors),
        Type::Enum(id) => pipeline.enums.get(id).and_then(|e| member_name(&e.members)),
        _ => None,
    };
    name.unwrap_or_else(|| meaning.format_value(bits))
}

/// Returns `file:line`, or `None` without a source location.
pub fn source_location(pipeline: &Pipeline, loc: SourceLoc) -> Option<String> {
    pipeline.file_of(loc).map(|file| format!("{file}:{}", loc.line))
}

/// Returns the match fields of an entry, in parentheses.
fn match_fields(pipeline: &Pipeline, id: ir::TableId, entry: &StoredEntry) -> String {
    let table_entry = entry.to_table_entry(pipeline, id);
    let format_key = |((_, key), match_field): ((_, &ir::MatchKey), &ir::KeyMatch)| {
        format!("{}={}", key.name, ValueFormat::from(key).format_match(match_field))
    };
    let keys: Vec<String> = pipeline.tables[id].match_keys().zip(&table_entry.keys).map(format_key).collect();
    format!("({})", keys.join(", "))
}

impl<O: Overseer> ExecContext<'_, O> {
    /// Records an event.
    pub(crate) fn record_event(&mut self, event: TraceEvent, loc: SourceLoc) {
        let at = source_location(self.pipeline, loc);
        self.overseer.record_event(event, at);
    }

    /// Records an action of the architecture.
    pub(crate) fn record_architecture_event(&mut self, what: impl FnOnce() -> String) {
        if O::TRACES {
            let what = what();
            self.record_event(TraceEvent::Architecture { what }, SourceLoc::default());
        }
    }

    /// Records the change of a variable. Does nothing if the word belongs to no variable or the
    /// value is equal.
    pub(crate) fn record_assignment(&mut self, frame: &Frame, d: WordIndex, a: WordIndex, loc: SourceLoc) {
        let Some(var) = self.program.var_at(d) else { return };
        let reg = self.program.var_regs[var];
        let new = &frame.reg_words[a as usize..(a + reg.words) as usize];
        if frame.words(reg) == new {
            return;
        }
        let from = self.show_words(var, frame.words(reg));
        let to = self.show_words(var, new);
        self.record_event(TraceEvent::Set { variable: self.program.var_names[var].clone(), from, to }, loc);
    }

    pub(crate) fn record_validity(&mut self, header: u32, valid: bool, loc: SourceLoc) {
        let header = self.program.headers[header as usize].name.clone();
        self.record_event(TraceEvent::Validity { header, valid }, loc);
    }

    fn show_words(&self, var: usize, words: &[u64]) -> String {
        let Some(declared) = self.pipeline.vars.values().nth(var) else { return String::new() };
        let words = if matches!(declared.ty, Type::Varbit(_)) { &words[1..] } else { words };
        let meaning = ValueFormat { name: &declared.name, ty: declared.ty, annotations: &[], type_name: None };
        value_text(self.pipeline, meaning, &big_from_words(words))
    }

    /// Returns a variable with its name, without the name of its header.
    pub(crate) fn named_variable(&self, frame: &Frame, var: usize, owner: &str) -> NamedValue {
        let name = &self.program.var_names[var];
        let short = name.strip_prefix(owner).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
        NamedValue { name: short.to_owned(), value: self.show_words(var, frame.words(self.program.var_regs[var])) }
    }

    /// Formats a value of which only the width is known.
    pub(crate) fn show_reg(&self, frame: &Frame, reg: Reg) -> String {
        let value = crate::exec_context::load_big(frame, reg);
        if reg.width <= 16 { value.to_string() } else { format!("{value:#x}") }
    }

    /// Records a lookup and the action that follows. `slot` is the hit entry's, `target` its member
    /// or group of an action profile, `action` the action's position in the table's list, `args`
    /// its data.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn record_table_event(
        &mut self,
        frame: &Frame,
        site: &ApplySite,
        slot: Option<u32>,
        target: HitTarget,
        action: u32,
        args: &[u64],
        loc: SourceLoc,
    ) {
        let pipeline = self.pipeline;
        let id = ir::TableId(site.table as u32);
        let Some(table) = pipeline.tables.get(id) else { return };
        let keys = table.keys.iter().zip(&site.keys).map(|(key, reg)| NamedValue {
            name: key.name.clone(),
            value: value_text(pipeline, key.into(), &crate::exec_context::load_big(frame, *reg)),
        });
        let keys = keys.collect();
        let hit = slot.and_then(|slot| self.memory.tables[site.table].slots[slot as usize].entry.clone());
        let hit = hit.map(|entry| EntryHit {
            entry: match_fields(pipeline, id, &entry),
            priority: (entry.priority() != 0).then_some(entry.priority()),
            provenance: entry
                .provenance()
                .map(|from| from.to_string())
                .or_else(|| self.config.sources.find(id, &entry)),
            through: match target {
                HitTarget::Arm(_) => None,
                HitTarget::Member(member) => Some(format!("member {member}")),
                HitTarget::Group(group) => Some(format!("group {group}")),
            },
        });
        let action = table.actions.get(action as usize).map_or(ActionId(u32::MAX), |listed| listed.action);
        let name = pipeline.actions.get(action).map(|a| a.preamble.name.clone()).unwrap_or_default();
        let arguments = self.named_args(action, args);
        self.record_event(
            TraceEvent::Table { table: table.preamble.name.clone(), keys, hit, action: name, arguments },
            loc,
        );
    }

    /// Records an entry that the packet has added.
    pub(crate) fn record_added_entry(&mut self, id: ir::TableId, entry: &StoredEntry) {
        let (true, Some(table)) = (O::TRACES, self.pipeline.tables.get(id)) else { return };
        let entries::ActionSpec::Call(call) = entry.to_table_entry(self.pipeline, id).action else { return };
        let Some(action) = self.pipeline.actions.get(call.action) else { return };
        let argument = |(param, value): (&ir::Param, &num_bigint::BigUint)| NamedValue {
            name: param.name.clone(),
            value: value_text(self.pipeline, param.into(), value),
        };
        let event = TraceEvent::Added {
            table: table.preamble.name.clone(),
            entry: match_fields(self.pipeline, id, entry),
            action: action.preamble.name.clone(),
            arguments: action.params.iter().zip(&call.args).map(argument).collect(),
        };
        self.record_event(event, SourceLoc::default());
    }

    /// Returns the action data with the names of the parameters; `args` are its words.
    fn named_args(&self, action: ActionId, args: &[u64]) -> Vec<NamedValue> {
        let pipeline = self.pipeline;
        let Some(declared) = pipeline.actions.get(action) else { return Vec::new() };
        let layout = entries::action_layout(pipeline, action);
        let named_value = |(param, field): (&ir::Param, &entries::PackedArgField)| {
            let words = args.get(field.offset..field.offset + field.words).unwrap_or_default();
            let value = big_from_words(words);
            let value = value_text(pipeline, param.into(), &value);
            NamedValue { name: param.name.clone(), value }
        };
        declared.params.iter().zip(&layout).map(named_value).collect()
    }

    /// Returns the name of an extern object's method, or of a function.
    pub(crate) fn call_name(&self, object: Option<ir::ExternId>, func: ir::ExternFn) -> String {
        let object = object.and_then(|id| self.pipeline.externs.get(id));
        match (object, func.name().split_once('.')) {
            (Some(object), Some((_, method))) => format!("{}.{method}", object.preamble.name),
            _ => func.name().to_owned(),
        }
    }

    /// Returns the name of a table.
    pub(crate) fn table_name(&self, table: usize) -> String {
        self.pipeline.tables.get(ir::TableId::from_index(table)).map(|t| t.preamble.name.clone()).unwrap_or_default()
    }
}
