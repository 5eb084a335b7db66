//! Random bodies for [`crate::generate`].

use crate::generate::Choices;
use ir::*;

/// Builder of one block after the other. A block may use its own values and those of the entry,
/// which dominates all.
struct Builder<'a, 'b> {
    c: &'a mut Choices<'b>,
    p: &'a Pipeline,
    kind: ControlKind,
    b: BodyBuilder,
    values: Vec<Value>,
}

pub fn body(c: &mut Choices, p: &Pipeline, kind: ControlKind) -> Body {
    let mut b = Builder { c, p, kind, b: BodyBuilder::new(), values: Vec::new() };
    let count = b.c.below(6) + 1;
    let mut blocks = vec![b.b.current().unwrap_or(Block(0))];
    for _ in 1..count {
        let block = b.b.create_block();
        for _ in 0..b.c.below(3) {
            let ty = b.c.scalar(p.enums.len());
            b.b.append_param(block, ty);
        }
        blocks.push(block);
    }
    if kind == ControlKind::Parser {
        for (n, block) in blocks.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
            let loc = b.c.loc();
            b.b.add_state(format!("s{n}"), *block, loc);
        }
    }
    let mut at_entry = Vec::new();
    for (n, block) in blocks.iter().enumerate() {
        b.b.switch_to(*block);
        b.values = at_entry.clone();
        b.values.extend(&b.b.body().blocks[*block].params);
        for _ in 0..b.c.below(8) {
            b.instruction();
        }
        if n == 0 {
            at_entry = b.values.clone();
        }
        b.terminator(&blocks, n);
    }
    b.b.finish()
}

impl Builder<'_, '_> {
    fn value(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.values.iter().copied().filter(|v| self.b.value_type(*v) == ty).collect();
        match self.c.pick(&fitting) {
            Some(v) => *v,
            None => {
                let constant = self.c.constant(self.p, ty);
                let v = self.b.constant(constant);
                self.values.push(v);
                v
            }
        }
    }
    fn number(&mut self) -> Value {
        let ty = match self.c.scalar(0) {
            ty @ (Type::Bit(_) | Type::Int(_)) => ty,
            _ => Type::Bit(8),
        };
        self.value(ty)
    }
    fn header(&mut self) -> HeaderId {
        HeaderId(self.c.below(self.p.headers.len()) as u32)
    }
    fn var(&mut self) -> VarId {
        VarId(self.c.below(self.p.vars.len()) as u32)
    }
    fn instruction(&mut self) {
        let loc = self.c.loc();
        self.b.set_loc(loc);
        let result = match self.c.below(13) {
            0 => self.load(),
            1 => {
                let var = self.var();
                let ty = self.p.vars[var].ty;
                if !matches!(ty, Type::Varbit(_)) {
                    let value = self.value(ty);
                    self.b.store(var, value);
                }
                None
            }
            2 => {
                let a = self.number();
                let op = [UnaryOp::Neg, UnaryOp::Not][self.c.below(2)];
                Some(self.b.unary(op, a))
            }
            3 => {
                let a = self.value(Type::Bool);
                Some(self.b.logical_not(a))
            }
            4 | 5 => self.binary(),
            6 => {
                let (a, ty) = (self.number(), self.c.scalar(self.p.enums.len()));
                Some(self.b.cast(ty, a))
            }
            7 => {
                let (a, b) = (self.number(), self.number());
                Some(self.b.concat(a, b))
            }
            8 => {
                let a = self.number();
                let width = self.b.value_type(a).width();
                (width > 0).then(|| {
                    let lo = self.c.below(width as usize) as u32;
                    let hi = lo + self.c.below((width - lo) as usize) as u32;
                    self.b.slice(a, hi, lo)
                })
            }
            9 => {
                let ty = self.c.scalar(self.p.enums.len());
                let (cond, a, b) = (self.value(Type::Bool), self.value(ty), self.value(ty));
                Some(self.b.select(cond, a, b))
            }
            10 => self.headers(),
            11 => self.external(),
            _ => self.packet(),
        };
        self.values.extend(result);
    }
    fn load(&mut self) -> Option<Value> {
        let var = self.var();
        Some(self.b.load(self.p, var))
    }
    fn binary(&mut self) -> Option<Value> {
        use BinaryOp::*;
        const OPS: [BinaryOp; 18] =
            [Add, Eq, Sub, Mul, Div, Mod, AddSat, SubSat, And, Or, Xor, Shl, Shr, Ne, Lt, Le, Gt, Ge];
        let op = OPS[self.c.below(18)];
        let a = self.number();
        let ty = if matches!(op, Shl | Shr) { Type::Bit(8) } else { self.b.value_type(a) };
        let b = self.value(ty);
        Some(self.b.binary(op, a, b))
    }
    fn headers(&mut self) -> Option<Value> {
        let h = self.header();
        match self.c.below(4) {
            0 => return Some(self.b.is_valid(h)),
            1 => self.b.set_valid(h),
            2 => self.b.set_invalid(h),
            _ => {
                let same: Vec<HeaderId> =
                    self.p.headers.iter().filter(|(_, o)| o.ty == self.p.headers[h].ty).map(|(id, _)| id).collect();
                let src = *self.c.pick(&same).unwrap_or(&h);
                self.b.copy_header(h, src);
            }
        }
        None
    }
    fn external(&mut self) -> Option<Value> {
        let object = ExternId(self.c.below(self.p.externs.len()) as u32);
        let kind = self.p.externs.get(object).map(|o| &o.kind);
        let data = ExternArg::Values(vec![self.number()]);
        let (object, func, args, results) = match kind {
            Some(ExternKind::Counter { .. }) => {
                (Some(object), ExternFn::CounterCount, vec![ExternArg::Value(self.number())], vec![])
            }
            Some(ExternKind::Register { elem, .. }) => {
                (Some(object), ExternFn::RegisterRead, vec![ExternArg::Value(self.number())], elem.clone())
            }
            Some(ExternKind::Hash { output, .. }) => (Some(object), ExternFn::HashGet, vec![data], vec![*output]),
            Some(ExternKind::Digest { .. }) => (Some(object), ExternFn::DigestPack, vec![data], vec![]),
            _ => match self.c.below(4) {
                0 => (None, ExternFn::MarkToDrop, vec![], vec![]),
                1 => (None, ExternFn::LogMsg, vec![ExternArg::Str(self.c.text()), data], vec![]),
                2 => (None, ExternFn::Recirculate, vec![ExternArg::Vars(vec![self.var()])], vec![]),
                _ => {
                    let condition = ExternArg::Value(self.value(Type::Bool));
                    (None, ExternFn::Assume, vec![condition, ExternArg::Str(self.c.text())], vec![])
                }
            },
        };
        let results = self.b.call_extern(object, func, args, &results);
        self.values.extend(results);
        None
    }
    fn packet(&mut self) -> Option<Value> {
        let header = self.header();
        match self.kind {
            ControlKind::Deparser => {
                self.b.emit(header);
                None
            }
            ControlKind::Parser => match self.c.below(5) {
                0 => {
                    let bits = self.value(Type::Bit(32));
                    self.b.advance(bits);
                    None
                }
                1 => Some(self.b.lookahead(Type::Bit(16))),
                2 => {
                    let (cond, error) = (self.value(Type::Bool), self.value(Type::Error));
                    self.b.verify(cond, error);
                    None
                }
                3 => Some(self.b.packet_length()),
                _ => {
                    let ty = &self.p.header_types[self.p.headers[header].ty];
                    if ty.fields.iter().any(|f| matches!(f.ty, Type::Varbit(_))) {
                        let bits = self.value(Type::Bit(32));
                        self.b.extract_varbit(header, bits);
                    } else {
                        self.b.extract(header);
                    }
                    None
                }
            },
            _ => None,
        }
    }
    fn call_to(&mut self, blocks: &[Block], from: usize) -> Option<BlockCall> {
        // Mostly forward, sometimes a loop, never to the entry.
        let first = if self.c.chance(25) { 1 } else { from + 1 };
        let block = *self.c.pick(blocks.get(first..)?)?;
        let types: Vec<Type> = self.b.body().blocks[block].params.iter().map(|v| self.b.value_type(*v)).collect();
        Some(BlockCall { block, args: types.into_iter().map(|t| self.value(t)).collect() })
    }
    fn leave(&mut self) {
        match self.c.below(4) {
            0 if self.kind == ControlKind::Parser => self.b.reject(),
            0 => self.b.exit(),
            _ => self.b.ret(),
        }
    }
    fn terminator(&mut self, blocks: &[Block], from: usize) {
        let loc = self.c.loc();
        self.b.set_loc(loc);
        let choice = self.c.below(5);
        let (first, second) = (self.call_to(blocks, from), self.call_to(blocks, from));
        let (Some(first), Some(second)) = (first, second) else { return self.leave() };
        match choice {
            0 => self.b.jump_with(first.block, first.args),
            1 => {
                let cond = self.value(Type::Bool);
                self.b.branch_with(cond, first, second);
            }
            2 => {
                let ty = Type::Bit(16);
                let value = self.value(ty);
                let cases = (0..self.c.below(3)).map(|n| (Const::new(ty, n as u32), first.clone())).collect();
                let end = Terminator::Switch { value, cases, default: second };
                // The builder's `switch` passes no arguments; this one does.
                self.end(end);
            }
            3 if self.kind != ControlKind::Parser && !self.p.tables.is_empty() => {
                let table = TableId(self.c.below(self.p.tables.len()) as u32);
                let types: Vec<Type> = self.p.tables[table].keys.iter().map(|k| k.ty).collect();
                let keys = types.into_iter().map(|t| self.value(t)).collect();
                let keep = self.values.clone();
                for arm in self.b.apply_table(self.p, table, keys) {
                    self.b.switch_to(arm.block);
                    self.values = keep.clone();
                    self.values.push(arm.hit);
                    self.values.extend(arm.params);
                    self.instruction();
                    match self.call_to(blocks, from) {
                        Some(call) => self.b.jump_with(call.block, call.args),
                        None => self.leave(),
                    }
                }
            }
            _ => self.leave(),
        }
    }
    fn end(&mut self, term: Terminator) {
        self.b.terminate(term);
    }
}
