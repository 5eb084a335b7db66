//! Parser of tables.

use super::error::TextResult;
use super::parse::TextParser;
use super::resolve::EntityKind;
use crate::table::*;

impl TextParser<'_> {
    fn parse_action_call(&mut self) -> TextResult<ActionCall> {
        let action = self.parse_entity(EntityKind::Action)?;
        Ok(ActionCall { action, args: self.parse_list("(", ")", Self::parse_biguint)? })
    }

    pub fn parse_table(&mut self) -> TextResult<Table> {
        let start = self.at;
        let name = self.parse_declared_name()?;
        let preamble = self.parse_preamble(name)?;
        let loc = self.parse_loc()?;
        self.expect_sign("{")?;
        let unknown = ActionCall { action: crate::ActionId(0), args: Vec::new() };
        let mut table = Table { loc, ..Table::new(preamble, Vec::new(), Vec::new(), unknown) };
        let mut default = None;
        while !self.eat_sign("}") {
            self.parse_table_line(&mut table, &mut default)?;
            self.end_of_statement()?;
        }
        match default {
            Some(call) => table.default_action = call,
            None => return Err(self.error_at(start, "the table has no default action", "add `default $NoAction()`")),
        }
        Ok(table)
    }

    /// Parses one line of a table: a key, action, property or entry. The default action goes to
    /// `default`, because it is mandatory and checked at the end.
    fn parse_table_line(&mut self, table: &mut Table, default: &mut Option<ActionCall>) -> TextResult<()> {
        let start = self.at;
        match self.parse_word("a property of the table or `}`")? {
            "key" => table.keys.push(self.parse_key()?),
            "action" => {
                let action = self.parse_entity(EntityKind::Action)?;
                let table_only = self.eat_word("table_only");
                let default_only = self.eat_word("default_only");
                table.actions.push(ActionRef {
                    action,
                    table_only,
                    default_only,
                    annotations: self.parse_annotations()?,
                });
            }
            "default" => {
                table.const_default = self.eat_word("const");
                *default = Some(self.parse_action_call()?);
            }
            "size" => table.size = Some(self.parse_int()?),
            "implementation" => table.implementation = Some(self.parse_entity(EntityKind::Extern)?),
            "direct_counter" => table.direct_counter = Some(self.parse_entity(EntityKind::Extern)?),
            "direct_meter" => table.direct_meter = Some(self.parse_entity(EntityKind::Extern)?),
            "meter_result" => table.meter_result = Some(self.parse_entity(EntityKind::Var)?),
            "add_on_miss" => table.add_on_miss = true,
            "idle_timeout" => table.idle_timeout = true,
            "const_entries" => table.const_entries = true,
            "property" => {
                let name = self.parse_string("the property's name, as a string")?;
                table.properties.push((name, self.parse_string("its text, as a string")?));
            }
            "entry" => {
                let entry = self.parse_entry()?;
                table.entries.push(entry);
            }
            _ => {
                let message = format!("a table has no {}", self.tokens[start].kind.describe());
                return Err(self.error_at(start, message, "see the grammar in docs/reference/ir.md"));
            }
        }
        Ok(())
    }

    fn parse_entry(&mut self) -> TextResult<ConstEntry> {
        let keys = self.parse_list("(", ")", Self::parse_key_match)?;
        self.expect_sign("=>")?;
        let action = self.parse_action_call()?;
        let priority = if self.eat_word("priority") { self.parse_signed()? } else { 0 };
        let is_const = self.eat_word("const");
        Ok(ConstEntry { keys, priority, action, is_const, loc: self.parse_loc()? })
    }

    fn parse_signed(&mut self) -> TextResult<i32> {
        let at = self.at;
        let negative = self.eat_sign("-");
        let magnitude: u32 = self.parse_int()?;
        let value = if negative { -i64::from(magnitude) } else { i64::from(magnitude) };
        i32::try_from(value).map_err(|_| self.error_at(at, "the number is too great", "it has to fit 32 bits, signed"))
    }

    fn parse_key_match(&mut self) -> TextResult<KeyMatch> {
        if self.eat_word_anywhere("any") {
            return Ok(KeyMatch::Optional(None));
        }
        if self.eat_word_anywhere("some") {
            return Ok(KeyMatch::Optional(Some(self.parse_biguint()?)));
        }
        let value = self.parse_biguint()?;
        if self.eat_sign("&&&") {
            return Ok(KeyMatch::Ternary { value, mask: self.parse_biguint()? });
        }
        if self.eat_sign("/") {
            return Ok(KeyMatch::Lpm { value, prefix_len: self.parse_int()? });
        }
        if self.eat_sign("..") {
            return Ok(KeyMatch::Range { lo: value, hi: self.parse_biguint()? });
        }
        Ok(KeyMatch::Exact(value))
    }
}
