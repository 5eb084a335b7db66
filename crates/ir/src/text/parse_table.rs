//! Parsing tables.

use super::error::Res;
use super::parse::Parser;
use super::resolve::Kind;
use crate::table::*;

impl Parser<'_> {
    fn action_call(&mut self) -> Res<ActionCall> {
        let action = self.entity(Kind::Action)?;
        Ok(ActionCall { action, args: self.list("(", ")", Self::big)? })
    }

    pub fn table(&mut self) -> Res<Table> {
        let start = self.at;
        let name = self.declared_name()?;
        let preamble = self.preamble(name)?;
        let loc = self.loc()?;
        self.sign("{")?;
        let unknown = ActionCall { action: crate::ActionId(0), args: Vec::new() };
        let mut table = Table { loc, ..Table::new(preamble, Vec::new(), Vec::new(), unknown) };
        let mut default = None;
        while !self.eat_sign("}") {
            self.table_line(&mut table, &mut default)?;
            self.end_of_statement()?;
        }
        match default {
            Some(call) => table.default_action = call,
            None => return Err(self.error_at(start, "the table has no default action", "add `default $NoAction()`")),
        }
        Ok(table)
    }

    fn table_line(&mut self, table: &mut Table, default: &mut Option<ActionCall>) -> Res<()> {
        let at = self.at;
        match self.word("a property of the table or `}`")? {
            "key" => table.keys.push(self.key()?),
            "action" => {
                let action = self.entity(Kind::Action)?;
                let table_only = self.eat_word("table_only");
                let default_only = self.eat_word("default_only");
                table.actions.push(ActionRef { action, table_only, default_only, annotations: self.annotations()? });
            }
            "default" => {
                table.const_default = self.eat_word("const");
                *default = Some(self.action_call()?);
            }
            "size" => table.size = Some(self.int()?),
            "implementation" => table.implementation = Some(self.entity(Kind::Extern)?),
            "direct_counter" => table.direct_counter = Some(self.entity(Kind::Extern)?),
            "direct_meter" => table.direct_meter = Some(self.entity(Kind::Extern)?),
            "meter_result" => table.meter_result = Some(self.entity(Kind::Var)?),
            "add_on_miss" => table.add_on_miss = true,
            "idle_timeout" => table.idle_timeout = true,
            "const_entries" => table.const_entries = true,
            "property" => {
                let name = self.string("the property's name, as a string")?;
                table.properties.push((name, self.string("its text, as a string")?));
            }
            "entry" => {
                let entry = self.entry()?;
                table.entries.push(entry);
            }
            _ => {
                let message = format!("a table has no {}", self.tokens[at].kind.describe());
                return Err(self.error_at(at, message, "see the grammar in docs/ir.md"));
            }
        }
        Ok(())
    }

    fn entry(&mut self) -> Res<ConstEntry> {
        let keys = self.list("(", ")", Self::key_match)?;
        self.sign("=>")?;
        let action = self.action_call()?;
        let priority = if self.eat_word("priority") { self.signed()? } else { 0 };
        let is_const = self.eat_word("const");
        Ok(ConstEntry { keys, priority, action, is_const, loc: self.loc()? })
    }

    fn signed(&mut self) -> Res<i32> {
        let at = self.at;
        let negative = self.eat_sign("-");
        let magnitude: u32 = self.int()?;
        let value = if negative { -i64::from(magnitude) } else { i64::from(magnitude) };
        i32::try_from(value).map_err(|_| self.error_at(at, "the number is too great", "it has to fit 32 bits, signed"))
    }

    fn key_match(&mut self) -> Res<KeyMatch> {
        if self.eat_word_anywhere("any") {
            return Ok(KeyMatch::Optional(None));
        }
        if self.eat_word_anywhere("some") {
            return Ok(KeyMatch::Optional(Some(self.big()?)));
        }
        let value = self.big()?;
        if self.eat_sign("&&&") {
            return Ok(KeyMatch::Ternary { value, mask: self.big()? });
        }
        if self.eat_sign("/") {
            return Ok(KeyMatch::Lpm { value, prefix_len: self.int()? });
        }
        if self.eat_sign("..") {
            return Ok(KeyMatch::Range { lo: value, hi: self.big()? });
        }
        Ok(KeyMatch::Exact(value))
    }
}
