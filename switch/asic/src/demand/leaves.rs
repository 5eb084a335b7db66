//! What a value is made of: the loads, parameters, results and validities that a chip has at hand when it needs the value.
//!
//! Some operations cost a chip nothing where the value is used: slices, joins, changes of type, masks, and, in a condition, comparisons. Such
//! a value is computed again wherever it is used. Other operations take an instruction, whose result is kept in the packet's state.

use fixedbitset::FixedBitSet;
use ir::{BinaryOp, Body, Cfg, Entity, EntityMap, ExternFn, HeaderId, Inst, Pipeline, Type, UnaryOp, Value, VarId};
use std::rc::Rc;

/// A piece of the packet's state that a value is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Leaf {
    /// What is kept under this value: it was loaded, given, or computed by an instruction.
    Value(Value),
    /// Whether a header is valid.
    Valid(HeaderId),
}

/// What an instruction means for its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// A constant.
    Const,
    /// A copy of a variable.
    Load(VarId),
    /// Validity of a header.
    Valid(HeaderId),
    /// Computed again wherever it is used.
    Free,
    /// Computed once by an instruction, a hash, or an extern.
    Kept,
}

/// Most leaves of one value. A hostile program could have each value depend on all before it.
const MAX_LEAVES: usize = 512;

/// The leaves of all values of a body.
pub(super) struct Leaves {
    of: EntityMap<Value, Rc<[Leaf]>>,
    consts: FixedBitSet,
    tests: FixedBitSet,
}

impl Leaves {
    pub fn new(body: &Body) -> Self {
        let mut of = EntityMap::new();
        // Parameters, and whatever is not seen below, stand for themselves.
        for value in body.values.keys() {
            of.push(Rc::from([Leaf::Value(value)]));
        }
        let count = body.values.len();
        let (consts, tests) = (FixedBitSet::with_capacity(count), FixedBitSet::with_capacity(count));
        let mut leaves = Leaves { of, consts, tests };
        for block in Cfg::new(body).reverse_postorder() {
            for data in &body.blocks[*block].insts {
                if let [result] = data.results[..] {
                    leaves.see(body, &data.inst, result);
                }
            }
        }
        leaves
    }

    fn see(&mut self, body: &Body, inst: &Inst, result: Value) {
        match self.shape(body, inst) {
            Shape::Const => {
                self.of[result] = Rc::from([]);
                self.consts.insert(result.index());
            }
            Shape::Valid(header) => {
                self.of[result] = Rc::from([Leaf::Valid(header)]);
                self.tests.insert(result.index());
            }
            Shape::Free => {
                let mut leaves = Vec::new();
                inst.for_each_use(|v| leaves.extend_from_slice(&self.of[v]));
                leaves.sort_unstable();
                leaves.dedup();
                leaves.truncate(MAX_LEAVES);
                self.of[result] = leaves.into();
                if body.value_type(result) == Type::Bool && !matches!(inst, Inst::Cast(..)) {
                    self.tests.insert(result.index());
                }
            }
            Shape::Load(_) | Shape::Kept => {}
        }
    }

    /// What the value is made of; nothing for a constant.
    pub fn of(&self, value: Value) -> &[Leaf] {
        self.of.get(value).map_or(&[], |l| l)
    }

    /// Whether the value is kept under its own name.
    pub fn is_leaf(&self, value: Value) -> bool {
        self.of(value) == [Leaf::Value(value)]
    }

    /// Whether it is a comparison, or something made of comparisons: a gateway decides it, no instruction computes it.
    pub fn is_test(&self, value: Value) -> bool {
        self.tests.contains(value.index())
    }

    fn is_const(&self, value: Value) -> bool {
        self.consts.contains(value.index())
    }

    /// What an instruction with one result means for it.
    pub fn shape(&self, body: &Body, inst: &Inst) -> Shape {
        match inst {
            Inst::Const(_) => Shape::Const,
            Inst::Load(var) => Shape::Load(*var),
            Inst::IsValid(header) => Shape::Valid(*header),
            Inst::Slice { .. } | Inst::Concat(..) | Inst::Cast(..) => Shape::Free,
            Inst::Unary(UnaryOp::LogicalNot, _) => Shape::Free,
            Inst::Binary(op, a, b) => self.binary(*op, body.value_type(*a), self.is_const(*a) || self.is_const(*b)),
            _ => Shape::Kept,
        }
    }

    /// Gateways compare for equality, and with constants; order between two fields takes a subtraction.
    fn binary(&self, op: BinaryOp, ty: Type, with_const: bool) -> Shape {
        let free = match op {
            BinaryOp::Eq | BinaryOp::Ne => true,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => with_const,
            BinaryOp::And => with_const || ty == Type::Bool,
            BinaryOp::Or | BinaryOp::Xor => ty == Type::Bool,
            _ => false,
        };
        if free { Shape::Free } else { Shape::Kept }
    }
}

/// The variables of the architecture that an extern function writes.
pub(super) fn touched_vars(pipeline: &Pipeline, func: ExternFn) -> Vec<VarId> {
    let name = match func {
        ExternFn::MarkToDrop => "standard_metadata.egress_spec",
        ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload => "standard_metadata.checksum_error",
        _ => return Vec::new(),
    };
    pipeline.intrinsics.get(name).copied().into_iter().collect()
}
