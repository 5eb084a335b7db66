//! Lowers properties of tables, mainly attached externs.

use super::const_value::{ConstValue, InstanceName};
use super::lowering::{LowerResult, Lowering};
use super::names;
use crate::hir::{ExprKind, Property};
use ir::{ExternKind, Table, Type, VarKind};

impl Lowering<'_> {
    /// Reads the properties of a table other than keys, actions, entries and size: attached
    /// externs, and flags. The text of every other property is kept for P4Info.
    pub(super) fn read_properties(&mut self, properties: &[Property], table: &mut Table) -> LowerResult<()> {
        for property in properties {
            let attached = match &*property.name {
                "implementation" | "pna_implementation" => &mut table.implementation,
                "counters" | "pna_direct_counter" => &mut table.direct_counter,
                "meters" | "pna_direct_meter" => &mut table.direct_meter,
                name => {
                    self.read_flag_property(name, property, table);
                    let text = property.value.as_ref().map_or("", |value| self.sources.text(value.span));
                    table.properties.push((property.name.to_string(), text.to_string()));
                    continue;
                }
            };
            if let Some(object) = self.attached_extern(property, &table.preamble.name)? {
                *attached = Some(object);
            }
        }
        self.check_attached(properties, table)?;
        if table.direct_meter.is_some() && self.pipeline.arch == ir::Arch::V1Model {
            // v1model executes a direct meter at the hit and reads the color later, so the table
            // keeps it.
            let name = self.unique_name(&format!("{}.$colour", table.preamble.name));
            table.meter_result = Some(self.pipeline.add_var(name, Type::Bit(8), VarKind::Local, table.loc));
        }
        Ok(())
    }

    fn read_flag_property(&mut self, name: &str, property: &Property, table: &mut Table) {
        let known = property.value.as_ref().and_then(|value| self.try_eval_const(value));
        let is_true = matches!(known, Some(ConstValue::Bool(true)));
        match name {
            "add_on_miss" => table.add_on_miss = is_true,
            "support_timeout" | "idle_timeout_with_auto_delete" => table.idle_timeout |= is_true,
            "pna_idle_timeout" => {
                table.idle_timeout = match known {
                    Some(ConstValue::Enum(id, n)) => {
                        self.hir.enums[id.index()].members.get(n).is_some_and(|(name, _)| &**name != "NO_TIMEOUT")
                    }
                    _ => false,
                };
            }
            _ => {}
        }
    }

    /// Returns the extern object that a property of the table named `table` names or constructs;
    /// `None` if it is an omitted optional argument.
    fn attached_extern(&mut self, property: &Property, table: &str) -> LowerResult<Option<ir::ExternId>> {
        let Some(value) = &property.value else {
            return self.unsupported(property.span, format_args!("this value of `{}`", property.name));
        };
        let object = match &value.kind {
            ExprKind::Construct(construct) => {
                let naming = self.property_naming(property, table);
                self.instantiate(construct, &naming)?
            }
            ExprKind::Instance(id) => self.resolve_instance(*id)?,
            _ => match self.try_eval_const(value) {
                Some(constant) => constant,
                None => return self.unsupported(value.span, format_args!("this value of `{}`", property.name)),
            },
        };
        match object {
            ConstValue::Extern(object) => Ok(Some(object)),
            ConstValue::Missing => Ok(None),
            _ => self.unsupported(value.span, format_args!("this value of `{}`", property.name)),
        }
    }

    /// Returns the name of an object constructed in a property: that of the property's `@name`, or
    /// the names of table and property.
    fn property_naming(&self, property: &Property, table: &str) -> InstanceName {
        let path = match names::find_annotation(&property.annotations, "name") {
            // As in p4c, the name of a property has no table or control prefix.
            Some(_) => names::control_plane_name("", &property.name, &property.annotations),
            None => format!("{table}.{}", property.name),
        };
        let annotations = std::rc::Rc::new(property.annotations.clone());
        InstanceName { scope: path.clone(), path, annotations, by_type: false }
    }

    /// Reports attached objects of the wrong kind: an action profile, a direct counter or a direct
    /// meter is needed.
    fn check_attached(&mut self, properties: &[Property], table: &Table) -> LowerResult<()> {
        let kind_of =
            |lower: &Self, object: Option<ir::ExternId>| object.map(|o| lower.pipeline.externs[o].kind.clone());
        let profile_fits = kind_of(self, table.implementation)
            .is_none_or(|k| matches!(k, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. }));
        let counter_fits =
            kind_of(self, table.direct_counter).is_none_or(|k| matches!(k, ExternKind::DirectCounter { .. }));
        let meter_fits = kind_of(self, table.direct_meter).is_none_or(|k| matches!(k, ExternKind::DirectMeter { .. }));
        for (fits, names) in [
            (profile_fits, ["implementation", "pna_implementation"]),
            (counter_fits, ["counters", "pna_direct_counter"]),
            (meter_fits, ["meters", "pna_direct_meter"]),
        ] {
            if fits {
                continue;
            }
            if let Some(property) = properties.iter().find(|p| names.contains(&&*p.name)) {
                let message = format!("an object of this type can't be the `{}` of a table", property.name);
                return self.error("wrong-property", property.span, message);
            }
        }
        Ok(())
    }

    /// Sets the color of a direct meter to green before the lookup, because v1model defines it as
    /// green without a hit.
    pub(super) fn before_apply(&mut self, table: ir::TableId) {
        if let Some(var) = self.pipeline.tables[table].meter_result {
            let green = self.builder.bits(8, 0u8);
            self.builder.store(var, green);
        }
    }
}
