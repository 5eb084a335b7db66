//! Small executor that compares the behaviour of a pipeline before and after a pass. It follows the
//! documented rules of instructions. Results of tables and externs are derived from their operands.

use ir::*;
use num_bigint::BigUint;
use num_traits::{ToPrimitive, Zero};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of blocks; enough for any generated body without a loop.
const MAX_STEPS: usize = 400;

/// Externally visible effects of a run.
#[derive(PartialEq, Eq, Debug)]
pub struct Seen {
    /// Effects in order: table applications, extern calls, extracted and emitted headers, parser
    /// states.
    pub log: Vec<String>,
    /// Final values of non-local variables and headers. `None` if a loop did not end.
    pub end: Option<BTreeMap<String, String>>,
}

/// Value: bits, and the length of a varbit.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
struct Scalar {
    bits: BigUint,
    len: Option<u32>,
}

struct Run<'p> {
    p: &'p Pipeline,
    packet: Vec<u8>,
    /// Offset in bits.
    at: usize,
    vars: Vec<Scalar>,
    valid: Vec<bool>,
    log: Vec<String>,
}

/// Reason for the end of a body.
enum Left {
    Normally,
    TooLong,
}

/// Runs all controls on a packet.
pub fn run(p: &Pipeline, packet: &[u8]) -> Seen {
    let mut run = Run {
        p,
        packet: packet.to_vec(),
        at: 0,
        vars: vec![Scalar::default(); p.vars.len()],
        valid: vec![false; p.headers.len()],
        log: Vec::new(),
    };
    for control in p.controls.values() {
        if let Left::TooLong = run.body(&control.body) {
            return Seen { log: run.log, end: None };
        }
    }
    let vars = p.vars.iter().filter(|(_, v)| match v.kind {
        VarKind::Local => false,
        VarKind::Field(h, _) => !p.headers[h].local,
        _ => true,
    });
    let mut end: BTreeMap<String, String> =
        vars.map(|(id, v)| (v.name.clone(), format!("{:?}", run.load(id)))).collect();
    let headers = p.headers.iter().filter(|(_, h)| !h.local);
    end.extend(headers.map(|(id, h)| (format!("valid {}", h.name), run.valid[id.index()].to_string())));
    Seen { log: run.log, end: Some(end) }
}

fn draw(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Run<'_> {
    fn owner(&self, var: VarId) -> Option<HeaderId> {
        match self.p.vars[var].kind {
            VarKind::Field(h, _) => Some(h),
            _ => None,
        }
    }
    fn load(&self, var: VarId) -> Scalar {
        match self.owner(var) {
            Some(h) if !self.valid[h.index()] => Scalar::default(),
            _ => self.vars[var.index()].clone(),
        }
    }
    fn make_valid(&mut self, header: HeaderId) {
        if !self.valid[header.index()] {
            for field in &self.p.headers[header].fields {
                self.vars[field.index()] = Scalar::default();
            }
        }
        self.valid[header.index()] = true;
        if let Some(union) = self.p.headers[header].union {
            for member in self.p.unions[union].members.iter().filter(|m| **m != header) {
                self.valid[member.index()] = false;
            }
        }
    }
    fn take(&mut self, bits: usize) -> Option<BigUint> {
        let end = self.at.checked_add(bits).filter(|end| *end <= self.packet.len() * 8)?;
        let all = BigUint::from_bytes_be(&self.packet) >> (self.packet.len() * 8 - end);
        self.at = end;
        Some(eval::wrap(bits as u32, &all))
    }
    fn extract(&mut self, header: HeaderId, varbit: u32) -> Option<()> {
        self.log.push(format!("extract {} {varbit}", self.p.headers[header].name));
        let fields = self.p.headers[header].fields.clone();
        let widths: Vec<u32> = fields
            .iter()
            .map(|f| match self.p.vars[*f].ty {
                Type::Varbit(max) if varbit <= max => Some(varbit),
                Type::Varbit(_) => None,
                ty => Some(ty.width()),
            })
            .collect::<Option<_>>()?;
        let start = self.at;
        if start + widths.iter().sum::<u32>() as usize > self.packet.len() * 8 {
            return None;
        }
        self.make_valid(header);
        for (field, width) in fields.iter().zip(widths) {
            let bits = self.take(width as usize)?;
            let len = matches!(self.p.vars[*field].ty, Type::Varbit(_)).then_some(width);
            self.vars[field.index()] = Scalar { bits, len };
        }
        Some(())
    }

    fn body(&mut self, body: &Body) -> Left {
        let Some(mut block) = body.entry else { return Left::Normally };
        let mut values = vec![Scalar::default(); body.values.len()];
        let mut args: Vec<Scalar> = Vec::new();
        for _ in 0..MAX_STEPS {
            for state in body.states.iter().filter(|s| s.block == block) {
                self.log.push(format!("state {}", state.name));
            }
            let data = &body.blocks[block];
            assert_eq!(data.params.len(), args.len(), "arguments of {block}");
            for (param, arg) in data.params.iter().zip(args.drain(..)) {
                values[param.index()] = arg;
            }
            for inst in &data.insts {
                let Some(results) = self.inst(body, &inst.inst, &inst.results, &values) else {
                    self.log.push(format!("left by {:?}", std::mem::discriminant(&inst.inst)));
                    return Left::Normally;
                };
                assert_eq!(results.len(), inst.results.len(), "{:?}", inst.inst);
                for (value, result) in inst.results.iter().zip(results) {
                    values[value.index()] = result;
                }
            }
            let term = &data.term.as_ref().expect("verified").term;
            let get = |v: &Value| values[v.index()].clone();
            let call = match term {
                Terminator::Jump(call) => call.clone(),
                Terminator::Branch { cond, then, els } => {
                    if get(cond).bits.is_zero() {
                        els.clone()
                    } else {
                        then.clone()
                    }
                }
                Terminator::Switch { value, cases, default } => {
                    let bits = get(value).bits;
                    cases.iter().find(|(c, _)| c.bits == bits).map_or(default, |(_, call)| call).clone()
                }
                Terminator::Apply { table, keys, arms } => {
                    let keys: Vec<Scalar> = keys.iter().map(get).collect();
                    (block, args) = self.apply(*table, &keys, arms);
                    continue;
                }
                Terminator::Return | Terminator::Exit | Terminator::Reject => {
                    self.log.push(format!("{term:?}"));
                    return Left::Normally;
                }
            };
            args = call.args.iter().map(get).collect();
            block = call.block;
        }
        Left::TooLong
    }

    fn apply(&mut self, table: TableId, keys: &[Scalar], arms: &[ActionArm]) -> (Block, Vec<Scalar>) {
        let data = &self.p.tables[table];
        self.log.push(format!("apply {} {keys:?}", data.preamble.name));
        let seed = draw((&data.preamble.name, keys, self.log.len()));
        let chosen = data.actions[seed as usize % data.actions.len()].action;
        let arm = arms.iter().find(|a| a.action == chosen).expect("verified");
        let hit = data.known_hit(chosen).map_or(seed & 1, u64::from);
        let mut args = vec![Scalar { bits: BigUint::from(hit), len: None }];
        for (n, param) in self.p.actions[chosen].params.iter().enumerate() {
            args.push(Scalar { bits: eval::wrap(param.ty.width(), &BigUint::from(draw((seed, n)))), len: None });
        }
        (arm.block, args)
    }

    /// Returns the results, or `None` if the body ends here.
    fn inst(&mut self, body: &Body, inst: &Inst, results: &[Value], values: &[Scalar]) -> Option<Vec<Scalar>> {
        let get = |v: &Value| values[v.index()].clone();
        let ty = |v: &Value| body.value_type(*v);
        let scalar = |bits: BigUint| Some(vec![Scalar { bits, len: None }]);
        match inst {
            Inst::Const(c) => return scalar(c.bits.clone()),
            Inst::Load(var) => return Some(vec![self.load(*var)]),
            Inst::Store(var, value) => {
                if self.owner(*var).is_none_or(|h| self.valid[h.index()]) {
                    self.vars[var.index()] = get(value);
                }
            }
            Inst::Unary(op, a) => return scalar(eval::unary(*op, ty(a), &get(a).bits)),
            Inst::Binary(op, a, b) => return scalar(eval::binary(*op, ty(a), &get(a).bits, &get(b).bits)),
            Inst::Cast(to, a) => return scalar(eval::cast(ty(a), *to, &get(a).bits)),
            Inst::Slice { value, hi, lo } => return scalar(eval::slice(&get(value).bits, *hi, *lo)),
            Inst::Concat(a, b) => return scalar(eval::concat(&get(a).bits, &get(b).bits, ty(b).width())),
            Inst::Select { cond, then, els } => {
                return Some(vec![if get(cond).bits.is_zero() { get(els) } else { get(then) }]);
            }
            Inst::IsValid(h) => return scalar(BigUint::from(u8::from(self.valid[h.index()]))),
            Inst::SetValid(h) => self.make_valid(*h),
            Inst::SetInvalid(h) => self.valid[h.index()] = false,
            Inst::CopyHeader { dst, src } => self.copy(*dst, *src),
            Inst::Extract(h) => self.extract(*h, 0)?,
            Inst::ExtractVarbit(h, bits) => self.extract(*h, get(bits).bits.to_u32().unwrap_or(u32::MAX))?,
            Inst::Advance(bits) => {
                self.take(get(bits).bits.to_usize()?)?;
            }
            Inst::Lookahead(ty) => {
                let start = self.at;
                let bits = self.take(ty.width() as usize);
                self.at = start;
                return scalar(bits?);
            }
            Inst::Verify(cond, error) => {
                if get(cond).bits.is_zero() {
                    self.log.push(format!("verify {:?}", get(error)));
                    return None;
                }
            }
            Inst::PacketLength => return scalar(BigUint::from(self.packet.len())),
            Inst::InValueSet(..) => return scalar(BigUint::zero()),
            Inst::Emit(h) => {
                let fields: Vec<Scalar> = self.p.headers[*h].fields.iter().map(|f| self.load(*f)).collect();
                self.log.push(format!("emit {} {} {fields:?}", self.p.headers[*h].name, self.valid[h.index()]));
            }
            Inst::Extern { func, args, .. } => {
                let args: Vec<String> = args.iter().map(|a| self.arg(a, values)).collect();
                self.log.push(format!("{} {args:?}", func.name()));
                let seed = draw(self.log.len());
                let width = |v: &Value| ty(v).width();
                return Some(
                    results
                        .iter()
                        .map(|v| Scalar { bits: eval::wrap(width(v), &BigUint::from(seed)), len: None })
                        .collect(),
                );
            }
        }
        Some(Vec::new())
    }

    fn copy(&mut self, dst: HeaderId, src: HeaderId) {
        let values: Vec<Scalar> = self.p.headers[src].fields.iter().map(|f| self.load(*f)).collect();
        if self.valid[src.index()] {
            self.make_valid(dst);
            for (field, value) in self.p.headers[dst].fields.iter().zip(values) {
                self.vars[field.index()] = value;
            }
        } else {
            self.valid[dst.index()] = false;
        }
    }

    fn arg(&self, arg: &ExternArg, values: &[Scalar]) -> String {
        match arg {
            ExternArg::Value(v) => format!("{:?}", values[v.index()]),
            ExternArg::Values(vs) => format!("{:?}", vs.iter().map(|v| &values[v.index()]).collect::<Vec<_>>()),
            ExternArg::Str(text) => text.clone(),
            ExternArg::Vars(vars) => {
                let named = vars.iter().map(|v| (&self.p.vars[*v].name, self.load(*v)));
                format!("{:?}", named.collect::<Vec<_>>())
            }
            ExternArg::Table(t) => self.p.tables[*t].preamble.name.clone(),
            ExternArg::Action(a) => self.p.actions[*a].preamble.name.clone(),
        }
    }
}
