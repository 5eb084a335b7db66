//! Recording of steps: values by name and in readable form.

use crate::frame::Frame;
use crate::lookup::Target;
use crate::machine::Machine;
use crate::overseer::Overseer;
use crate::program::{ApplySite, Reg, Slot};
use crate::trace::{Event, Hit, NamedValue};
use entries::{Meaning, big_from_words};
use ir::{ActionId, Entity, Loc, NamedType, Pipeline, Type};
use num_bigint::BigUint;

/// A value as text: names where there are some, else as [`Meaning`] writes it. Members of enumerations with an underlying type show by name, too.
pub fn text(pipeline: &Pipeline, meaning: Meaning<'_>, bits: &BigUint) -> String {
    let declared = meaning.type_name.and_then(|name| pipeline.named_types.iter().find(|(n, _)| n == name));
    if let Some((_, NamedType::SerializableEnum(_, members))) = declared
        && let Some((name, _)) = members.iter().find(|(_, value)| value == bits)
    {
        return name.clone();
    }
    let member = |names: &[String]| usize::try_from(bits).ok().and_then(|index| names.get(index)).cloned();
    let named = match meaning.ty {
        Type::Error => member(&pipeline.errors),
        Type::Enum(id) => pipeline.enums.get(id).and_then(|e| member(&e.members)),
        _ => None,
    };
    named.unwrap_or_else(|| meaning.value(bits))
}

/// `file:line`, or `None` for no position.
pub fn place(pipeline: &Pipeline, loc: Loc) -> Option<String> {
    pipeline.file_of(loc).map(|file| format!("{file}:{}", loc.line))
}

impl<O: Overseer> Machine<'_, O> {
    /// Records an event.
    pub(crate) fn note(&mut self, event: Event, loc: Loc) {
        let at = place(self.pipeline, loc);
        self.overseer.note(event, at);
    }

    /// Records what the architecture does.
    pub(crate) fn note_architecture(&mut self, what: impl FnOnce() -> String) {
        if O::TRACES {
            let what = what();
            self.note(Event::Architecture { what }, Loc::default());
        }
    }

    /// Records that a variable changes, if it is one and does.
    pub(crate) fn note_set(&mut self, frame: &Frame, d: Slot, a: Slot, loc: Loc) {
        let Some(var) = self.program.var_at(d) else { return };
        let reg = self.program.var_regs[var];
        let new = &frame.slots[a as usize..(a + reg.words) as usize];
        if frame.words(reg) == new {
            return;
        }
        let from = self.show_words(var, frame.words(reg));
        let to = self.show_words(var, new);
        self.note(Event::Set { variable: self.program.var_names[var].clone(), from, to }, loc);
    }

    pub(crate) fn note_valid(&mut self, header: u32, valid: bool, loc: Loc) {
        let header = self.program.headers[header as usize].name.clone();
        self.note(Event::Validity { header, valid }, loc);
    }

    fn show_words(&self, var: usize, words: &[u64]) -> String {
        let Some(declared) = self.pipeline.vars.values().nth(var) else { return String::new() };
        let words = if matches!(declared.ty, Type::Varbit(_)) { &words[1..] } else { words };
        let meaning = Meaning { name: &declared.name, ty: declared.ty, annotations: &[], type_name: None };
        text(self.pipeline, meaning, &big_from_words(words))
    }

    /// A variable with its name, without the name of its header.
    pub(crate) fn named_var(&self, frame: &Frame, var: usize, owner: &str) -> NamedValue {
        let name = &self.program.var_names[var];
        let short = name.strip_prefix(owner).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
        NamedValue { name: short.to_owned(), value: self.show_words(var, frame.words(self.program.var_regs[var])) }
    }

    /// A value whose type is only known by its width.
    pub(crate) fn show_reg(&self, frame: &Frame, reg: Reg) -> String {
        let value = crate::machine::big(frame, reg);
        if reg.width <= 16 { value.to_string() } else { format!("{value:#x}") }
    }

    /// Records a lookup and the action that follows.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn note_table(
        &mut self,
        frame: &Frame,
        site: &ApplySite,
        slot: Option<u32>,
        through: Target,
        action: u32,
        args: &[u64],
        loc: Loc,
    ) {
        let pipeline = self.pipeline;
        let id = ir::TableId(site.table as u32);
        let Some(table) = pipeline.tables.get(id) else { return };
        let keys = table.keys.iter().zip(&site.keys).map(|(key, reg)| NamedValue {
            name: key.name.clone(),
            value: text(pipeline, key.into(), &crate::machine::big(frame, *reg)),
        });
        let keys = keys.collect();
        let hit = slot.and_then(|slot| self.memory.tables[site.table].slots[slot as usize].entry.clone());
        let hit = hit.map(|entry| {
            let given = entry.to_table_entry(pipeline, id);
            let one = |((_, key), given): ((_, &ir::Key), &ir::KeyMatch)| {
                format!("{}={}", key.name, Meaning::from(key).matched(given))
            };
            let keys: Vec<String> = table.match_keys().zip(&given.keys).map(one).collect();
            Hit {
                entry: format!("({})", keys.join(", ")),
                priority: (entry.priority() != 0).then_some(entry.priority()),
                provenance: entry
                    .provenance()
                    .map(|from| from.to_string())
                    .or_else(|| self.config.sources.find(id, &entry)),
                through: match through {
                    Target::Arm(_) => None,
                    Target::Member(member) => Some(format!("member {member}")),
                    Target::Group(group) => Some(format!("group {group}")),
                },
            }
        });
        let action = table.actions.get(action as usize).map_or(ActionId(u32::MAX), |listed| listed.action);
        let name = pipeline.actions.get(action).map(|a| a.preamble.name.clone()).unwrap_or_default();
        let arguments = self.named_args(action, args);
        self.note(Event::Table { table: table.preamble.name.clone(), keys, hit, action: name, arguments }, loc);
    }

    fn named_args(&self, action: ActionId, args: &[u64]) -> Vec<NamedValue> {
        let pipeline = self.pipeline;
        let Some(declared) = pipeline.actions.get(action) else { return Vec::new() };
        let layout = entries::action_layout(pipeline, action);
        let one = |(param, field): (&ir::Param, &entries::ArgField)| {
            let words = args.get(field.offset..field.offset + field.words).unwrap_or_default();
            let value = big_from_words(words);
            let value = text(pipeline, param.into(), &value);
            NamedValue { name: param.name.clone(), value }
        };
        declared.params.iter().zip(&layout).map(one).collect()
    }

    /// The name of an extern object, or the function's own.
    pub(crate) fn call_name(&self, object: Option<ir::ExternId>, func: ir::ExternFn) -> String {
        let object = object.and_then(|id| self.pipeline.externs.get(id));
        match (object, func.name().split_once('.')) {
            (Some(object), Some((_, method))) => format!("{}.{method}", object.preamble.name),
            _ => func.name().to_owned(),
        }
    }

    /// The name of a table.
    pub(crate) fn table_name(&self, table: usize) -> String {
        self.pipeline.tables.get(ir::TableId::from_index(table)).map(|t| t.preamble.name.clone()).unwrap_or_default()
    }
}
