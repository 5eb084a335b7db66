//! Generates parser state graphs: mostly acyclic, with loops over stacks.

use super::super::tree::*;
use super::expr::binary;
use super::{BlockRole, ProgramGenerator, ScopeNames};

const ERRORS: [&str; 4] = ["PacketTooShort", "NoMatch", "ParserInvalidArgument", "HeaderTooShort"];

impl ProgramGenerator<'_> {
    /// Generates the parser.
    pub(super) fn generate_parser(&mut self) {
        let scope = self.block_scope(BlockRole::Parser);
        let count = self.rng.usize(self.config.states.clone());
        let mut left = self.extractable();
        let sets = self.value_set();
        for number in 0..count {
            let name = if number == 0 { "start".to_owned() } else { format!("p{number}") };
            let state = self.parser_state(name, number, count, &mut left, &sets, &scope);
            self.program.states.push(state);
        }
    }

    /// Returns the headers to extract, in order of extraction.
    fn extractable(&mut self) -> Vec<(String, usize)> {
        let mut all = Vec::new();
        for Instance { name, shape } in self.program.instances.clone() {
            match shape {
                Shape::Single(header) => all.push((format!("hdr.{name}"), header)),
                Shape::Stack(header, _) => all.push((format!("hdr.{name}.next"), header)),
                Shape::Union(members) => {
                    let member = self.rng.usize(..members.len());
                    all.push((format!("hdr.{name}.m{member}"), members[member]));
                }
            }
        }
        all.reverse();
        all
    }

    /// Sometimes declares a value set. Returns its name and type.
    fn value_set(&mut self) -> Option<(String, Ty)> {
        if !self.true_with_percent(30) {
            return None;
        }
        let ty = Ty::Bit(self.width());
        self.program.value_sets.push(format!("value_set<{ty}>(4) known"));
        Some(("known".to_owned(), ty))
    }

    /// Generates state `number` of `count`. `remaining` are the headers that no state has extracted
    /// yet, as places with their types; `sets` is a value set with its type. An extraction to
    /// `.next` of a stack makes a loop possible.
    fn parser_state(
        &mut self,
        name: String,
        number: usize,
        count: usize,
        remaining: &mut Vec<(String, usize)>,
        sets: &Option<(String, Ty)>,
        scope: &ScopeNames,
    ) -> State {
        let mut ops = Vec::new();
        // Fields of headers that this state extracts, which selects prefer.
        let mut extracted_fields = Vec::new();
        let mut loop_target = None;
        for _ in 0..self.rng.usize(1..3) {
            let Some((place, header)) = remaining.pop() else { break };
            let size = self.program.headers[header].has_varbit().then(|| self.varbit_size(header));
            ops.push(Op::Extract { place: place.clone(), header, size });
            let read_place = place.replace(".next", ".last");
            let fields = self.program.headers[header].fields.iter().filter(|field| !field.varbit);
            extracted_fields.extend(fields.map(|field| (format!("{read_place}.{}", field.name), field.ty)));
            if place.ends_with(".next") {
                loop_target = Some(name.clone());
                break;
            }
        }
        let mut state_scope = scope.clone();
        state_scope.reads.extend(extracted_fields.iter().cloned());
        if self.config.plain_packets {
            state_scope.writes.retain(|(place, _)| !place.starts_with("hdr."));
        }
        for _ in 0..self.rng.usize(..3) {
            let op = self.parser_op(&state_scope);
            let position = self.rng.usize(..=ops.len());
            let end = if matches!(op, Op::Extract { .. }) { ops.len() } else { position };
            // Operations that read fields of this state's headers come after the extraction.
            ops.insert(ops.len().max(end), op);
        }
        let next = self.transition(number, count, &extracted_fields, loop_target, sets, &state_scope);
        State { name, ops, next }
    }

    /// Generates the size of a varbit field in bits: mostly some of the packet's next bits times 8.
    fn varbit_size(&mut self, header: usize) -> Expr {
        let most = self.program.headers[header].fields.iter().find(|field| field.varbit).map_or(0, |f| f.ty.width());
        let next = Expr::place(Ty::Bit(8), "packet.lookahead<bit<8>>()").to(Ty::Bit(32));
        let bytes = match self.rng.u8(..10) {
            0 => return next,
            1 => next,
            _ => binary(Ty::Bit(32), "&", next, Expr::lit(Ty::Bit(32), u128::from(most / 8).next_power_of_two() - 1)),
        };
        binary(Ty::Bit(32), "<<", bytes, Expr::lit(Ty::Bit(8), 3))
    }

    /// Generates an operation of a parser state. `advance` mostly skips whole bytes, because others
    /// are an error.
    fn parser_op(&mut self, scope: &ScopeNames) -> Op {
        let target = self.random_element(&scope.writes).cloned();
        let kind = match (self.config.plain_packets, &target) {
            (true, Some(_)) => self.rng.u8(2..7),
            (true, None) => 4,
            (false, _) => self.rng.u8(..12),
        };
        match (kind, target) {
            (0, _) => Op::Advance(Expr::lit(Ty::Bit(32), u128::from(self.rng.u32(..5) * 8))),
            (1, _) => {
                let bits = self.random_read(Ty::Bit(32), scope);
                let mask = Expr::lit(Ty::Bit(32), if self.true_with_percent(80) { 0x18 } else { 0x1f });
                Op::Advance(binary(Ty::Bit(32), "&", bits, mask))
            }
            (2 | 3, Some((place, ty))) if ty != Ty::Bool => {
                Op::Other(Stmt::assign(&place, Expr::place(ty, format!("packet.lookahead<{ty}>()"))))
            }
            (4, _) => {
                let cond = self.random_expr(Ty::Bool, 1, scope);
                let likely_cond = binary(Ty::Bool, "||", cond, self.random_read(Ty::Bool, scope));
                let error = ERRORS[self.rng.usize(..4)];
                Op::Other(Stmt::Line(vec![
                    text("verify("),
                    TextPart::Expr(likely_cond),
                    text(format!(", error.{error})")),
                ]))
            }
            (5, Some((place, ty))) => {
                Op::Other(Stmt::assign(&place, Expr::place(Ty::Bit(32), "packet.length()").to(ty)))
            }
            (6, Some((place, ty))) => {
                let cond = self.random_expr(Ty::Bool, 1, scope);
                let value = self.random_expr(ty, 2, scope);
                Op::Other(Stmt::If { cond, then: vec![Stmt::assign(&place, value)], els: Vec::new() })
            }
            (7, _) => {
                let places = self.header_places();
                let place = self.random_element(&places).map_or("hdr.h0", |(place, _)| place);
                let call = if self.true_with_percent(70) { "setValid" } else { "setInvalid" };
                Op::Other(Stmt::plain(format!("{place}.{call}()")))
            }
            (_, Some((place, ty))) => {
                let depth = self.config.depth.min(2);
                Op::Other(Stmt::assign(&place, self.random_expr(ty, depth, scope)))
            }
            _ => Op::Advance(Expr::lit(Ty::Bit(32), 8)),
        }
    }

    /// Generates the transition of state `number` of `count`: to later states, to accept or reject,
    /// or back to the state itself (`loop_target`) for the next element of a stack.
    fn transition(
        &mut self,
        number: usize,
        count: usize,
        extracted_fields: &[(String, Ty)],
        loop_target: Option<String>,
        sets: &Option<(String, Ty)>,
        scope: &ScopeNames,
    ) -> Transition {
        let later_state = |generator: &mut Self| match number + 1 < count && !generator.true_with_percent(15) {
            true => format!("p{}", generator.rng.usize(number + 1..count)),
            false => if generator.true_with_percent(90) { "accept" } else { "reject" }.to_owned(),
        };
        if let (Some((set, ty)), true) = (sets, self.true_with_percent(40)) {
            let key = match extracted_fields.iter().find(|(_, field_ty)| field_ty == ty) {
                Some((place, _)) => Expr::place(*ty, place.clone()),
                None => self.recent_field_read(extracted_fields, scope).to(*ty),
            };
            let cases = vec![
                (vec![Keyset::Set(set.clone())], later_state(self)),
                (vec![Keyset::Value(self.random_constant() & ones(ty.width()))], later_state(self)),
                (vec![Keyset::Any], later_state(self)),
            ];
            return Transition { keys: vec![key], cases };
        }
        if loop_target.is_none() && self.true_with_percent(20) {
            return Transition { keys: Vec::new(), cases: vec![(Vec::new(), later_state(self))] };
        }
        let mut keys: Vec<Expr> =
            (0..self.rng.usize(1..3)).map(|_| self.recent_field_read(extracted_fields, scope)).collect();
        let lookahead_ty = Ty::Bit([1, 4, 8, 16, 64, 80][self.rng.usize(..6)]);
        if self.true_with_percent(15) {
            keys[0] = Expr::place(lookahead_ty, format!("packet.lookahead<{lookahead_ty}>()"));
        }
        let mut cases = Vec::new();
        for number in 0..self.rng.usize(1..5) {
            let row = keys.iter().map(|key| self.keyset(key.ty)).collect();
            let target = match &loop_target {
                Some(name) if number == 0 || self.true_with_percent(30) => name.clone(),
                _ => later_state(self),
            };
            cases.push((row, target));
        }
        // A parser that cannot terminate is refused.
        let is_endless = cases.iter().all(|(_, target)| loop_target.as_ref() == Some(target));
        if is_endless || self.true_with_percent(85) {
            cases.push((vec![Keyset::Any; keys.len()], later_state(self)));
        }
        Transition { keys, cases }
    }

    /// Generates a read of a field of a header that was just extracted.
    fn recent_field_read(&mut self, near: &[(String, Ty)], scope: &ScopeNames) -> Expr {
        let near: Vec<&(String, Ty)> = near.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(_))).collect();
        match self.random_element(&near) {
            Some((place, ty)) if self.true_with_percent(85) => Expr::place(*ty, place.clone()),
            _ => {
                let ty = Ty::Bit(self.width());
                self.random_expr(ty, 1, scope)
            }
        }
    }

    fn keyset(&mut self, ty: Ty) -> Keyset {
        let cut = ones(ty.width());
        let value = self.random_constant() & cut;
        match self.rng.u8(..10) {
            0..6 => Keyset::Value(value),
            6 | 7 => {
                let mask = (self.random_value() | 1) & cut;
                Keyset::Mask(value, mask)
            }
            8 => {
                let other = self.random_constant() & cut;
                Keyset::Range(value.min(other), value.max(other))
            }
            _ => Keyset::Any,
        }
    }
}
