//! Program of the test nodes, and entries of its table `forward`.

use ir::Pipeline;
use p4runtime::client::{Client, forwarding};
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::proto::v1::{
    self, Entity, FieldMatch, TableAction, TableEntry, Update, entity, field_match, table_action, update,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Compiles `marks.p4`.
pub fn pipeline() -> Pipeline {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("../../programs/include")], ..Default::default() };
    let file = root.join("tests/programs/marks.p4");
    p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options).pipeline.expect("it compiles")
}

/// Sets the pipeline.
pub async fn commit(client: &mut Client, pipeline: &Pipeline) {
    let info = p4runtime::p4info::to_message(&ir::p4info::generate(pipeline));
    let config = forwarding(info, ir::text::print(pipeline).into_bytes(), 1);
    client.set_pipeline(Action::VerifyAndCommit, Some(config)).await.expect("a good config");
}

/// Builder of entries of the table `forward`.
pub struct Forward {
    table: u32,
    action: u32,
}

impl Forward {
    pub fn new(pipeline: &Pipeline) -> Forward {
        let info = ir::p4info::generate(pipeline);
        let table = info.tables.iter().find(|table| table.preamble.name.ends_with("forward")).expect("the table");
        let action = info.actions.iter().find(|action| action.preamble.name.ends_with("out_of")).expect("the action");
        Forward { table: table.preamble.id, action: action.preamble.id }
    }

    /// Returns an entry for a destination.
    pub fn entry(&self, destination: u64, port: u64) -> TableEntry {
        let value = |number: u64| {
            let bytes = number.to_be_bytes();
            let zeros = (number.leading_zeros() as usize / 8).min(7);
            bytes::Bytes::copy_from_slice(&bytes[zeros..])
        };
        let exact = field_match::FieldMatchType::Exact(field_match::Exact { value: value(destination) });
        let params = vec![v1::action::Param { param_id: 1, value: value(port) }];
        let action = v1::Action { action_id: self.action, params };
        TableEntry {
            table_id: self.table,
            r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact) }],
            action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
            ..TableEntry::default()
        }
    }

    pub fn update(&self, kind: update::Type, destination: u64, port: u64) -> Update {
        let entity = Entity { entity: Some(entity::Entity::TableEntry(self.entry(destination, port))) };
        Update { r#type: kind as i32, entity: Some(entity) }
    }

    /// Reads all entries: destination and port.
    pub async fn read(&self, client: &mut Client) -> BTreeMap<u64, u64> {
        self.try_read(client).await.unwrap_or_else(|(code, message)| panic!("code {code}: {message}"))
    }

    /// Reads all entries. Returns the canonical code and a message on an error.
    pub async fn try_read(&self, client: &mut Client) -> Result<BTreeMap<u64, u64>, (i32, String)> {
        let all = TableEntry { table_id: self.table, ..TableEntry::default() };
        let entities = vec![Entity { entity: Some(entity::Entity::TableEntry(all)) }];
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let one = |entity: Entity| {
            let Some(entity::Entity::TableEntry(entry)) = entity.entity else { panic!("not an entry") };
            let Some(field_match::FieldMatchType::Exact(exact)) = entry.r#match[0].field_match_type.clone() else {
                panic!("not exact")
            };
            let Some(table_action::Type::Action(action)) = entry.action.and_then(|action| action.r#type) else {
                panic!("no action")
            };
            (number(&exact.value), number(&action.params[0].value))
        };
        match client.read_all(entities).await {
            Ok(entities) => Ok(entities.into_iter().map(one).collect()),
            Err(status) => Err((status.code() as i32, status.message().to_owned())),
        }
    }
}
