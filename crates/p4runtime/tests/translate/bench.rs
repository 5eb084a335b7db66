//! Program that the tests write to, and shorthands to write and read.

use crate::device::Kept;
use entries::WriteBatch;
use p4runtime::proto::v1::{self, entity::Entity as E, field_match as f, update::Type};
use p4runtime::{Code, Device, Oneshots, P4RuntimeError, Schema};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub struct Bench {
    pub schema: Schema,
    pub device: Kept,
}

/// Compiles a file, given by its path in the repository.
pub fn compile(path: &str) -> Arc<ir::Pipeline> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &root.join(path), &options);
    let errors: Vec<String> = compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
    Arc::new(compiled.pipeline.unwrap_or_else(|| panic!("{}", errors.join("\n"))))
}

/// Returns the pipeline of `program.p4`.
pub fn pipeline() -> Arc<ir::Pipeline> {
    static PIPELINE: OnceLock<Arc<ir::Pipeline>> = OnceLock::new();
    PIPELINE.get_or_init(|| compile("crates/p4runtime/tests/translate/program.p4")).clone()
}

pub fn bench() -> Bench {
    Bench { schema: Schema::new(pipeline()), device: Kept::new(pipeline()) }
}

impl Bench {
    /// Returns the id of a table, given by the end of its name.
    pub fn table(&self, name: &str) -> u32 {
        let found = self.schema.info().tables.iter().find(|table| table.preamble.name == format!("ingress.{name}"));
        found.unwrap_or_else(|| panic!("no table {name}")).preamble.id
    }

    pub fn action_id(&self, name: &str) -> u32 {
        let found = self.schema.info().actions.iter().find(|action| action.preamble.name == format!("ingress.{name}"));
        found.unwrap_or_else(|| panic!("no action {name}")).preamble.id
    }

    /// Returns the id of any other object.
    pub fn object(&self, name: &str) -> u32 {
        let info = self.schema.info();
        let preambles = (info.counters.iter().map(|o| &o.preamble))
            .chain(info.meters.iter().map(|o| &o.preamble))
            .chain(info.registers.iter().map(|o| &o.preamble))
            .chain(info.action_profiles.iter().map(|o| &o.preamble))
            .chain(info.digests.iter().map(|o| &o.preamble))
            .chain(info.value_sets.iter().map(|o| &o.preamble));
        let found = preambles.into_iter().find(|p| p.name == name || p.name.ends_with(&format!(".{name}")));
        found.unwrap_or_else(|| panic!("no object {name}")).id
    }

    /// Returns an action with its arguments, numbered from 1.
    pub fn call(&self, name: &str, args: &[&[u8]]) -> v1::Action {
        let param = |(id, arg): (u32, &&[u8])| v1::action::Param { param_id: id, value: arg.to_vec().into() };
        v1::Action { action_id: self.action_id(name), params: (1..).zip(args).map(param).collect() }
    }

    pub fn entry(&self, table: &str, matches: Vec<v1::FieldMatch>, action: v1::Action) -> v1::TableEntry {
        v1::TableEntry {
            table_id: self.table(table),
            r#match: matches,
            action: Some(direct(action)),
            ..v1::TableEntry::default()
        }
    }

    /// Translates and writes the updates of one request, each independently (CONTINUE_ON_ERROR).
    pub fn request(&self, updates: &[v1::Update]) -> Vec<Result<(), P4RuntimeError>> {
        let mut oneshots = Oneshots::new(&self.schema, self.device.state().unwrap(), updates);
        let one = |update: &v1::Update| {
            let updates = self.schema.translate_update(&mut oneshots, update)?;
            let written = self.device.write(&[WriteBatch { updates }])?;
            written.into_iter().try_for_each(|one| one.map_err(|refused| P4RuntimeError::from(&refused.error)))
        };
        updates.iter().map(one).collect()
    }

    pub fn write(&self, kind: Type, entity: E) -> Result<(), P4RuntimeError> {
        self.request(&[update(kind, entity)]).remove(0)
    }

    pub fn insert(&self, entry: &v1::TableEntry) -> Result<(), P4RuntimeError> {
        self.write(Type::Insert, E::TableEntry(entry.clone()))
    }

    pub fn modify(&self, entry: &v1::TableEntry) -> Result<(), P4RuntimeError> {
        self.write(Type::Modify, E::TableEntry(entry.clone()))
    }

    pub fn delete(&self, entry: &v1::TableEntry) -> Result<(), P4RuntimeError> {
        self.write(Type::Delete, E::TableEntry(entry.clone()))
    }

    pub fn read(&self, wanted: E) -> Result<Vec<E>, P4RuntimeError> {
        let mut found = Vec::new();
        let wanted = v1::Entity { entity: Some(wanted) };
        self.schema.read(&self.device, &self.device.state().unwrap(), &wanted, &mut |entity| {
            found.extend(entity.entity);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    pub fn entries(&self, wanted: v1::TableEntry) -> Vec<v1::TableEntry> {
        let found = self.read(E::TableEntry(wanted)).unwrap_or_else(|refusal| panic!("{refusal}"));
        let entry = |entity| if let E::TableEntry(entry) = entity { entry } else { panic!("{entity:?}") };
        found.into_iter().map(entry).collect()
    }

    /// Returns the entries of a table in a canonical order.
    pub fn table_entries(&self, table: &str) -> Vec<v1::TableEntry> {
        let wanted = v1::TableEntry { table_id: self.table(table), ..v1::TableEntry::default() };
        let mut found = self.entries(wanted);
        found.sort_by_key(|entry| format!("{:?}", (&entry.r#match, entry.priority)));
        found
    }
}

pub fn update(kind: Type, entity: E) -> v1::Update {
    v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entity) }) }
}

pub fn direct(action: v1::Action) -> v1::TableAction {
    v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) }
}

fn field(id: u32, given: f::FieldMatchType) -> v1::FieldMatch {
    v1::FieldMatch { field_id: id, field_match_type: Some(given) }
}

pub fn exact(id: u32, value: &[u8]) -> v1::FieldMatch {
    field(id, f::FieldMatchType::Exact(f::Exact { value: value.to_vec().into() }))
}

pub fn ternary(id: u32, value: &[u8], mask: &[u8]) -> v1::FieldMatch {
    field(id, f::FieldMatchType::Ternary(f::Ternary { value: value.to_vec().into(), mask: mask.to_vec().into() }))
}

pub fn lpm(id: u32, value: &[u8], prefix_len: i32) -> v1::FieldMatch {
    field(id, f::FieldMatchType::Lpm(f::Lpm { value: value.to_vec().into(), prefix_len }))
}

pub fn range(id: u32, low: &[u8], high: &[u8]) -> v1::FieldMatch {
    field(id, f::FieldMatchType::Range(f::Range { low: low.to_vec().into(), high: high.to_vec().into() }))
}

pub fn optional(id: u32, value: &[u8]) -> v1::FieldMatch {
    field(id, f::FieldMatchType::Optional(f::Optional { value: value.to_vec().into() }))
}

/// Asserts that the result is an error with that code and with these words in its message.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, P4RuntimeError>, code: Code, words: &str) {
    match result {
        Ok(done) => panic!("not refused, but {done:?}; expected {code:?}: {words}"),
        Err(refusal) => {
            assert_eq!(refusal.code, code, "{refusal}");
            for word in words.split(" .. ") {
                assert!(refusal.message.contains(word), "`{}` does not say `{word}`", refusal.message);
            }
        }
    }
}

#[track_caller]
pub fn ok<T>(result: Result<T, P4RuntimeError>) -> T {
    result.unwrap_or_else(|refusal| panic!("{:?}: {refusal}", refusal.code))
}
