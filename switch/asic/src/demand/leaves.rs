//! Leaves of a value: the loads, parameters, results and validities from which a chip computes it
//! at its use.
//!
//! Some operations are free where the value is used: slices, concatenations, casts, masks, and, in
//! a condition, comparisons. Such a value is recomputed at each use. Other operations take an
//! instruction that stores its result in the packet's state.

use fixedbitset::FixedBitSet;
use ir::{BinaryOp, Body, Cfg, Entity, EntityMap, ExternFn, HeaderId, Inst, Pipeline, Type, UnaryOp, Value, VarId};
use std::rc::Rc;

/// A part of the packet's state from which a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum ValueLeaf {
    /// A stored value: loaded, passed as a parameter, or computed by an instruction.
    Value(Value),
    /// The validity of a header.
    Valid(HeaderId),
}

/// Cost of an instruction on a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InstCost {
    /// Constant.
    Const,
    /// Copy of a variable.
    Load(VarId),
    /// Validity of a header.
    Valid(HeaderId),
    /// Recomputed at each use.
    Free,
    /// Computed once by an instruction, a hash, or an extern.
    Materialized,
}

/// Maximum number of leaves of a value, because a hostile program could make each value depend on
/// all earlier ones.
const MAX_LEAVES: usize = 512;

/// Leaves of all values of a body.
pub(super) struct ValueLeaves {
    of: EntityMap<Value, Rc<[ValueLeaf]>>,
    consts: FixedBitSet,
    tests: FixedBitSet,
}

impl ValueLeaves {
    pub fn new(body: &Body) -> Self {
        let mut of = EntityMap::new();
        // Parameters, and values that the loop below skips, are their own leaves.
        for value in body.values.keys() {
            of.push(Rc::from([ValueLeaf::Value(value)]));
        }
        let count = body.values.len();
        let (consts, tests) = (FixedBitSet::with_capacity(count), FixedBitSet::with_capacity(count));
        let mut leaves = ValueLeaves { of, consts, tests };
        for block in Cfg::new(body).reverse_postorder() {
            for data in &body.blocks[*block].insts {
                if let [result] = data.results[..] {
                    leaves.add_inst(body, &data.inst, result);
                }
            }
        }
        leaves
    }

    /// Records the leaves of an instruction's result. A load or a materialized result is a leaf
    /// itself.
    fn add_inst(&mut self, body: &Body, inst: &Inst, result: Value) {
        match self.inst_cost(body, inst) {
            InstCost::Const => {
                self.of[result] = Rc::from([]);
                self.consts.insert(result.index());
            }
            InstCost::Valid(header) => {
                self.of[result] = Rc::from([ValueLeaf::Valid(header)]);
                self.tests.insert(result.index());
            }
            InstCost::Free => {
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
            InstCost::Load(_) | InstCost::Materialized => {}
        }
    }

    /// Returns the leaves of a value, empty for a constant.
    pub fn leaves_of(&self, value: Value) -> &[ValueLeaf] {
        self.of.get(value).map_or(&[], |l| l)
    }

    /// Returns whether the value is its own leaf.
    pub fn is_leaf(&self, value: Value) -> bool {
        self.leaves_of(value) == [ValueLeaf::Value(value)]
    }

    /// Returns whether the value is made of comparisons. A gateway decides it, so it takes no
    /// instruction.
    pub fn is_test(&self, value: Value) -> bool {
        self.tests.contains(value.index())
    }

    fn is_const(&self, value: Value) -> bool {
        self.consts.contains(value.index())
    }

    /// Returns the cost of an instruction with one result.
    pub fn inst_cost(&self, body: &Body, inst: &Inst) -> InstCost {
        match inst {
            Inst::Const(_) => InstCost::Const,
            Inst::Load(var) => InstCost::Load(*var),
            Inst::IsValid(header) => InstCost::Valid(*header),
            Inst::Slice { .. } | Inst::Concat(..) | Inst::Cast(..) => InstCost::Free,
            Inst::Unary(UnaryOp::LogicalNot, _) => InstCost::Free,
            Inst::Binary(op, a, b) => {
                self.binary_cost(*op, body.value_type(*a), self.is_const(*a) || self.is_const(*b))
            }
            _ => InstCost::Materialized,
        }
    }

    /// Gateways compare for equality and with constants. An order comparison of two fields takes a
    /// subtraction.
    fn binary_cost(&self, op: BinaryOp, ty: Type, with_const: bool) -> InstCost {
        let free = match op {
            BinaryOp::Eq | BinaryOp::Ne => true,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => with_const,
            BinaryOp::And => with_const || ty == Type::Bool,
            BinaryOp::Or | BinaryOp::Xor => ty == Type::Bool,
            _ => false,
        };
        if free { InstCost::Free } else { InstCost::Materialized }
    }
}

/// Returns the intrinsic variables that an extern function writes.
pub(super) fn extern_written_vars(pipeline: &Pipeline, func: ExternFn) -> Vec<VarId> {
    let name = match func {
        ExternFn::MarkToDrop => "standard_metadata.egress_spec",
        ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload => "standard_metadata.checksum_error",
        _ => return Vec::new(),
    };
    pipeline.intrinsics.get(name).copied().into_iter().collect()
}
