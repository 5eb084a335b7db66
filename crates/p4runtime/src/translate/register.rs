//! `RegisterEntry`.

use super::counter::{elements, index, index_message};
use super::schema::{ObjectSchema, Schema, find};
use super::update::only_modify;
use super::{Flow, Sink, entity};
use crate::proto::v1;
use crate::{Device, Refusal};
use entries::{Update, UpdateKind};
use ir::{ExternKind, Type};
use num_bigint::BigUint;
use std::ops::ControlFlow;

impl Schema {
    /// The leaves of a register's element.
    fn register_leaves(&self, register: &ObjectSchema) -> &[Type] {
        match &self.pipeline.externs[register.id].kind {
            ExternKind::Register { elem, .. } => elem,
            _ => &[],
        }
    }

    pub(super) fn register_write(&self, kind: UpdateKind, given: &v1::RegisterEntry) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a register")?;
        let (register, spec) = find(&self.registers, given.register_id, "register")?;
        let index = index(register, given.index.as_ref())?;
        let Some(data) = &given.data else {
            return Err(Refusal::invalid(format!("{}: no data is given", register.name)));
        };
        let values = self.leaves(&register.name, spec, self.register_leaves(register), data)?;
        Ok(vec![Update::Register(register.id, index, values)])
    }

    pub(super) fn register_message(
        &self,
        (register, spec): &(ObjectSchema, ir::p4info::TypeSpec),
        index: Option<u64>,
        values: &[BigUint],
    ) -> Result<v1::RegisterEntry, Refusal> {
        let data = self.data(&register.name, spec, self.register_leaves(register), values)?;
        let index = index.and_then(index_message);
        Ok(v1::RegisterEntry { register_id: register.number, index, data: Some(data) })
    }

    pub(super) fn read_registers(&self, device: &dyn Device, wanted: &v1::RegisterEntry, sink: Sink<'_>) -> Flow {
        let registers = match wanted.register_id {
            0 if wanted.index.is_some() => {
                return Err(Refusal::invalid(
                    "an index of no register is asked for; give its id too, or neither to read all",
                ));
            }
            0 => self.registers.values().collect(),
            id => vec![find(&self.registers, id, "register")?],
        };
        for register in registers {
            let index = index(&register.0, wanted.index.as_ref())?;
            for index in elements(&register.0, index) {
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
