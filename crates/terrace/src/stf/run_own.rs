//! The project's own commands.

use super::resolve;
use super::run::{Runner, StfResult, text};
use super::script::*;
use entries::{ActionProfileGroup, ActionProfileMember, EntryId, GroupMember, StateUpdate, UpdateKind};
use ir::{DataType, ExternKind, NamedType, Pipeline};

impl Runner<'_> {
    /// Runs a command that p4c's format lacks.
    ///
    /// # Errors
    /// An object that the program lacks, or a write that the device refuses. A check that does not
    /// hold is a finding of the report.
    pub(super) fn own(&mut self, command: &OwnCommand) -> StfResult {
        let pipeline = self.device.pipeline();
        let is_profile =
            |kind: &ExternKind| matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. });
        match command {
            OwnCommand::CheckRegister { name, index, comparison, value } => {
                let leaves = self.device.register(self.find_register(name)?, *index)?;
                let expected =
                    value.value.to_biguint().ok_or("a register's bits are not negative; give a bit pattern")?;
                let holds = leaves.len() == 1 && comparison.holds(&leaves[0], &expected);
                let shown: Vec<String> = leaves.iter().map(ToString::to_string).collect();
                let (shown, symbol) = (shown.join(", "), comparison.symbol());
                self.check(holds, || format!("register {name}[{index}] is {shown}, expected {symbol} {expected}"));
                Ok(())
            }
            OwnCommand::CheckDigest { name, fields } => self.check_digest(name, fields.as_deref()),
            OwnCommand::AdvanceTime { nanoseconds } => {
                let sent = self.device.advance(*nanoseconds)?;
                self.collect(sent)
            }
            OwnCommand::CheckEntries { table, comparison, count } => {
                let id = resolve::table(pipeline, table).map_err(text)?;
                let entries = self.device.entries(id).len() as u64;
                let symbol = comparison.symbol();
                self.check(comparison.holds(&entries, count), || {
                    format!("table {table} has {entries} entries, expected {symbol} {count}")
                });
                Ok(())
            }
            OwnCommand::MemberCreate { profile, member, action } => {
                let id = resolve::object(pipeline, "action profile", profile, is_profile).map_err(text)?;
                let tables = pipeline.tables.values().filter(|table| table.implementation == Some(id));
                let mut actions: Vec<_> = tables.flat_map(|table| table.actions.iter().map(|a| a.action)).collect();
                actions.sort_unstable();
                actions.dedup();
                let call = resolve::action_call(pipeline, actions.into_iter(), action).map_err(text)?;
                let member = ActionProfileMember { profile: id, id: *member, action: call };
                self.write(StateUpdate::Member(UpdateKind::Insert, member))
            }
            OwnCommand::GroupCreate { profile, group, members } => {
                let id = resolve::object(pipeline, "action selector", profile, is_profile).map_err(text)?;
                let members = members.iter().map(|member| GroupMember::new(*member, 1)).collect();
                let group = ActionProfileGroup { profile: id, id: *group, members };
                self.write(StateUpdate::Group(UpdateKind::Insert, group))
            }
            OwnCommand::IdleTimeout { handle, nanoseconds } => {
                let mut entry = self.handle(handle)?.clone();
                entry.idle_timeout_ns = *nanoseconds;
                self.handles.insert(handle.clone(), entry.clone());
                self.write(StateUpdate::Entry(UpdateKind::Modify, entry))
            }
            OwnCommand::ExpireTime { profile, nanoseconds } => {
                self.write(StateUpdate::ExpireTime(*profile, *nanoseconds))
            }
            OwnCommand::CheckIdle { handle } => self.check_idle(handle.as_deref()),
            OwnCommand::ValueSetAdd { name, keys } => {
                let set = resolve::value_set(pipeline, name).map_err(text)?;
                let keys = resolve::set_keys(&pipeline.value_sets[set].keys, keys).map_err(text)?;
                let members = self.value_sets.entry(set).or_default();
                members.push(keys);
                let members = members.clone();
                self.write(StateUpdate::ValueSet(set, members))
            }
        }
    }

    fn check_idle(&mut self, handle: Option<&str>) -> StfResult {
        let wanted = handle.map(|handle| self.entry_id(handle)).transpose()?;
        // With `none`, the notification is not consumed, because a later check may name it.
        let got = if wanted.is_some() { self.idle.pop_front() } else { self.idle.front().cloned() };
        let holds = wanted == got;
        let entry = |entry: &EntryId| format!("{:?} (priority {})", entry.keys, entry.priority);
        let describe = |id: &Option<EntryId>| id.as_ref().map_or("none".to_owned(), entry);
        let message = format!("an idle notification was expected for {}, got {}", describe(&wanted), describe(&got));
        self.check(holds, || message);
        Ok(())
    }

    /// Checks the oldest message of a digest, which is thereby taken: its fields by name or
    /// position. `None` as `fields` expects that there is no message. Fields that are not listed
    /// may have any value.
    fn check_digest(&mut self, name: &str, fields: Option<&[Argument]>) -> StfResult {
        let pipeline = self.device.pipeline();
        let is_digest = |kind: &ExternKind| matches!(kind, ExternKind::Digest { .. });
        let id = resolve::object(pipeline, "digest", name, is_digest).map_err(text)?;
        let (names, types) = match &pipeline.externs[id].kind {
            ExternKind::Digest { data_type, fields } => (leaf_names(pipeline, data_type), fields.clone()),
            _ => return Ok(()),
        };
        let position = self.digests.iter().position(|(digest, _)| *digest == id);
        let message = position.and_then(|index| self.digests.remove(index)).map(|(_, leaves)| leaves);
        let (fields, leaves) = match (fields, message) {
            (None, None) => {
                self.check(true, String::new);
                return Ok(());
            }
            (None, Some(leaves)) => {
                self.check(false, || format!("digest {name}: no message was expected, but there is {leaves:?}"));
                return Ok(());
            }
            (Some(_), None) => {
                self.check(false, || format!("digest {name}: a message was expected, but there is none"));
                return Ok(());
            }
            (Some(fields), Some(leaves)) => (fields, leaves),
        };
        for (position, (field, value)) in fields.iter().enumerate() {
            let index = match field {
                Some(field) => names.iter().position(|n| n == field || n.ends_with(&format!(".{field}"))),
                None => Some(position),
            };
            let index = index.filter(|index| *index < leaves.len().min(types.len()));
            let shown = field.clone().unwrap_or_else(|| position.to_string());
            let index =
                index.ok_or_else(|| format!("digest {name} has no field {shown}; it has {}", names.join(", ")))?;
            let expected = resolve::scalar(&shown, types[index], value).map_err(text)?;
            let actual = &leaves[index];
            self.check(*actual == expected, || {
                format!("digest {name}: field {shown} is {actual:#x}, expected {expected:#x}")
            });
        }
        Ok(())
    }
}

/// Returns the dotted names of an aggregate's leaves, in order. Terminates because P4 types cannot
/// be recursive.
fn leaf_names(pipeline: &Pipeline, ty: &DataType) -> Vec<String> {
    /// Appends the leaves of `ty` with the names `prefix.member`. `depth` bounds the nesting.
    fn collect_leaf_names(pipeline: &Pipeline, ty: &DataType, prefix: &str, depth: u32, out: &mut Vec<String>) {
        let path_of = |member: &str| if prefix.is_empty() { member.to_owned() } else { format!("{prefix}.{member}") };
        let find_type = |name: &String| pipeline.named_types.iter().find(|(n, _)| n == name).map(|(_, ty)| ty);
        match ty {
            _ if depth > 32 => {}
            DataType::Tuple(members) => {
                for (index, member) in members.iter().enumerate() {
                    collect_leaf_names(pipeline, member, &path_of(&index.to_string()), depth + 1, out);
                }
            }
            DataType::Named(name) => match find_type(name) {
                Some(NamedType::Struct(members) | NamedType::Header(members)) => {
                    for (member, ty) in members {
                        collect_leaf_names(pipeline, ty, &path_of(member), depth + 1, out);
                    }
                }
                _ => out.push(prefix.to_owned()),
            },
            _ => out.push(prefix.to_owned()),
        }
    }
    let mut names = Vec::new();
    collect_leaf_names(pipeline, ty, "", 0, &mut names);
    names
}
