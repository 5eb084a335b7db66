//! Properties of tables: what is attached to them.

use super::known::{Known, Naming};
use super::lowering::{Lower, Res};
use super::names;
use crate::hir::{ExprKind, Property};
use ir::{ExternKind, Table, Type, VarKind};

impl Lower<'_> {
    /// Reads the properties that a table has besides keys, actions, entries and size.
    pub(super) fn properties(&mut self, properties: &[Property], table: &mut Table) -> Res<()> {
        for property in properties {
            let attached = match &*property.name {
                "implementation" | "pna_implementation" => &mut table.implementation,
                "counters" | "pna_direct_counter" => &mut table.direct_counter,
                "meters" | "pna_direct_meter" => &mut table.direct_meter,
                name => {
                    self.flag(name, property, table);
                    let text = property.value.as_ref().map_or("", |value| self.sources.text(value.span));
                    table.properties.push((property.name.to_string(), text.to_string()));
                    continue;
                }
            };
            if let Some(object) = self.attached(property, &table.preamble.name)? {
                *attached = Some(object);
            }
        }
        self.check_attached(properties, table)?;
        if table.direct_meter.is_some() && self.p.arch == ir::Arch::V1Model {
            let name = self.unique(&format!("{}.$colour", table.preamble.name));
            table.meter_result = Some(self.p.add_var(name, Type::Bit(8), VarKind::Local, table.loc));
        }
        Ok(())
    }

    fn flag(&mut self, name: &str, property: &Property, table: &mut Table) {
        let known = property.value.as_ref().and_then(|value| self.try_known(value));
        let is_true = matches!(known, Some(Known::Bool(true)));
        match name {
            "add_on_miss" => table.add_on_miss = is_true,
            "support_timeout" | "idle_timeout_with_auto_delete" => table.idle_timeout |= is_true,
            "pna_idle_timeout" => {
                table.idle_timeout = match known {
                    Some(Known::Enum(id, n)) => {
                        self.hir.enums[id.index()].members.get(n).is_some_and(|(name, _)| &**name != "NO_TIMEOUT")
                    }
                    _ => false,
                };
            }
            _ => {}
        }
    }

    /// The extern object that a property names or makes.
    fn attached(&mut self, property: &Property, table: &str) -> Res<Option<ir::ExternId>> {
        let Some(value) = &property.value else {
            return self.unsupported(property.span, format_args!("this value of `{}`", property.name));
        };
        let known = match &value.kind {
            ExprKind::Construct(construct) => {
                let naming = self.property_naming(property, table);
                self.construct(construct, &naming)?
            }
            ExprKind::Instance(id) => self.instance(*id)?,
            _ => match self.try_known(value) {
                Some(known) => known,
                None => return self.unsupported(value.span, format_args!("this value of `{}`", property.name)),
            },
        };
        match known {
            Known::Extern(object) => Ok(Some(object)),
            Known::Missing => Ok(None),
            _ => self.unsupported(value.span, format_args!("this value of `{}`", property.name)),
        }
    }

    /// What an object made in a property is called: by the property's `@name`, else after table and property.
    fn property_naming(&self, property: &Property, table: &str) -> Naming {
        let path = match names::annotation(&property.annotations, "name") {
            // As p4c has it: the name of a property stands alone, without that of its table or control.
            Some(_) => names::control_plane_name("", &property.name, &property.annotations),
            None => format!("{table}.{}", property.name),
        };
        let annotations = std::rc::Rc::new(property.annotations.clone());
        Naming { scope: path.clone(), path, annotations, by_type: false }
    }

    /// Complains about objects that are attached as what they are not.
    fn check_attached(&mut self, properties: &[Property], table: &Table) -> Res<()> {
        let kind = |lower: &Self, object: Option<ir::ExternId>| object.map(|o| lower.p.externs[o].kind.clone());
        let profile = kind(self, table.implementation)
            .is_none_or(|k| matches!(k, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. }));
        let counter = kind(self, table.direct_counter).is_none_or(|k| matches!(k, ExternKind::DirectCounter { .. }));
        let meter = kind(self, table.direct_meter).is_none_or(|k| matches!(k, ExternKind::DirectMeter { .. }));
        for (fits, names) in [
            (profile, ["implementation", "pna_implementation"]),
            (counter, ["counters", "pna_direct_counter"]),
            (meter, ["meters", "pna_direct_meter"]),
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

    /// v1model: without a hit, the colour of a direct meter is green.
    pub(super) fn before_apply(&mut self, table: ir::TableId) {
        if let Some(var) = self.p.tables[table].meter_result {
            let green = self.b.bits(8, 0u8);
            self.b.store(var, green);
        }
    }
}
