//! `RegisterEntry`.

use super::counter::{decode_index, index_message, selected_elements};
use super::schema::{ObjectSchema, Schema, find};
use super::update::only_modify;
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::{Device, P4RuntimeError};
use entries::{StateUpdate, UpdateKind};
use ir::{ExternKind, Type};
use num_bigint::BigUint;
use std::ops::ControlFlow;

impl Schema {
    /// Returns the types of the leaves of a register's element.
    fn register_leaves(&self, register: &ObjectSchema) -> &[Type] {
        match &self.pipeline.externs[register.id].kind {
            ExternKind::Register { elem, .. } => elem,
            _ => &[],
        }
    }

    pub(super) fn register_write(
        &self,
        kind: UpdateKind,
        given: &v1::RegisterEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a register")?;
        let (register, spec) = find(&self.registers, given.register_id, "register")?;
        let index = decode_index(register, given.index.as_ref())?;
        let Some(data) = &given.data else {
            return Err(P4RuntimeError::invalid(format!("{}: no data is given", register.name)));
        };
        let values = self.decode_leaves(&register.name, spec, self.register_leaves(register), data)?;
        Ok(vec![StateUpdate::Register(register.id, index, values)])
    }

    pub(super) fn register_message(
        &self,
        (register, spec): &(ObjectSchema, ir::p4info::TypeSpec),
        index: Option<u64>,
        values: &[BigUint],
    ) -> Result<v1::RegisterEntry, P4RuntimeError> {
        let data = self.encode_data(&register.name, spec, self.register_leaves(register), values)?;
        let index = index.and_then(index_message);
        Ok(v1::RegisterEntry { register_id: register.number, index, data: Some(data) })
    }

    /// Reads the elements of one register or of all, at one index or at all.
    pub(super) fn read_registers(
        &self,
        device: &dyn Device,
        pattern: &v1::RegisterEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let registers = match pattern.register_id {
            0 if pattern.index.is_some() => {
                return Err(P4RuntimeError::invalid(
                    "an index of no register is requested; give its id too, or neither to read all",
                ));
            }
            0 => self.registers.values().collect(),
            id => vec![find(&self.registers, id, "register")?],
        };
        for register in registers {
            let index = decode_index(&register.0, pattern.index.as_ref())?;
            for index in selected_elements(&register.0, index) {
                let Some(values) = device.register(register.0.id, index) else { break };
                let message = self.register_message(register, Some(index), &values)?;
                if sink(entity(v1::entity::Entity::RegisterEntry(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
