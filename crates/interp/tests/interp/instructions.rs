//! Compares each pure instruction with `ir::eval`, through extraction and emission, at widths of
//! one register slot, two and many.

use crate::build::*;
use ir::*;
use num_bigint::BigUint;
use proptest::prelude::*;

/// Operands of `width` bits and the operation on them. A packet returns the result.
#[derive(Debug)]
struct Case {
    a: (Type, BigUint),
    b: (Type, BigUint),
    result: Type,
}

/// Packs bits, most significant first, padded to bytes.
fn packed(values: &[(u32, &BigUint)]) -> Vec<u8> {
    let total: u32 = values.iter().map(|(width, _)| width).sum();
    let mut all = BigUint::ZERO;
    for (width, value) in values {
        all = (all << *width) | *value;
    }
    let bytes = total.div_ceil(8) as usize;
    all <<= bytes as u32 * 8 - total;
    let digits = all.to_bytes_be();
    let mut out = vec![0; bytes];
    let skip = digits.len().saturating_sub(bytes);
    let digits = &digits[skip..];
    out[bytes - digits.len()..].copy_from_slice(digits);
    out
}

/// Runs `emit` on the operands and returns the bits of the result.
fn run(case: &Case, emit: impl Fn(&mut BodyBuilder, Value, Value) -> Value) -> BigUint {
    let mut t = Build::v1model();
    let (wa, wb, wr) = (case.a.0.width(), case.b.0.width(), case.result.width());
    let pad = |width: u32| (8 - width % 8) % 8;
    let input = t.header("input", &[("a", Type::Bit(wa)), ("b", Type::Bit(wb)), ("pad", Type::Bit(pad(wa + wb)))]);
    let output = t.header("output", &[("r", Type::Bit(wr)), ("pad", Type::Bit(pad(wr)))]);
    let [a, b, r] = [t.field(input, 0), t.field(input, 1), t.field(output, 0)];
    t.parser(ControlKind::Parser, &[input]);
    let mut body = BodyBuilder::new();
    let (a, b) = (body.load(&t.p, a), body.load(&t.p, b));
    let (a, b) = (body.cast(case.a.0, a), body.cast(case.b.0, b));
    let result = emit(&mut body, a, b);
    let result = body.cast(Type::Bit(wr), result);
    body.set_valid(output);
    body.store(r, result);
    body.ret();
    t.control(ControlKind::Ingress, body);
    t.deparser(ControlKind::Deparser, &[output]);
    let mut interp = t.load();
    let out = interp.process(&packed(&[(wa, &case.a.1), (wb, &case.b.1)]), 0, 0);
    let sent = sent(&out);
    assert_eq!(sent.len(), 1, "{out:?}");
    BigUint::from_bytes_be(&sent[0].1) >> pad(wr)
}

fn width() -> impl Strategy<Value = u32> {
    prop_oneof![1..=64u32, 60..=68u32, 120..=136u32, 1..=300u32]
}

/// Returns values of a width, often edge cases.
fn bits(width: u32) -> impl Strategy<Value = BigUint> {
    let ones = (BigUint::from(1u8) << width) - 1u8;
    let half = BigUint::from(1u8) << (width - 1);
    let any = proptest::collection::vec(any::<u8>(), width.div_ceil(8) as usize);
    let cut = ones.clone();
    prop_oneof![
        3 => any.prop_map(move |bytes| BigUint::from_bytes_le(&bytes) & &cut),
        1 => Just(BigUint::ZERO),
        1 => Just(ones.clone()),
        1 => Just(half.clone()),
        1 => Just(BigUint::from(1u8) & &ones),
    ]
}

fn ty(width: u32, signed: bool) -> Type {
    if signed { Type::Int(width) } else { Type::Bit(width) }
}

const BINARY: [BinaryOp; 18] = {
    use BinaryOp::*;
    [Add, Sub, Mul, Div, Mod, AddSat, SubSat, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge]
};

fn binary_case() -> impl Strategy<Value = (BinaryOp, Case)> {
    (0..BINARY.len(), width(), any::<bool>(), 1..=20u32).prop_flat_map(|(op, width, signed, distance)| {
        let op = BINARY[op];
        let left = ty(width, signed);
        let right = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { Type::Bit(distance.max(8)) } else { left };
        let result = if op.is_comparison() { Type::Bool } else { left };
        (Just(op), bits(width), bits(right.width()), 0..2 * width).prop_map(move |(op, a, b, shift)| {
            // Most shift distances are near the width.
            let b = if right == left { b } else { BigUint::from(shift) % (BigUint::from(1u8) << right.width()) };
            (op, Case { a: (left, a), b: (right, b), result })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn binary((op, case) in binary_case()) {
        let expected = eval::binary(op, case.a.0, &case.a.1, &case.b.1);
        let got = run(&case, |b, x, y| b.binary(op, x, y));
        prop_assert_eq!(got, expected, "{:?} {:?}", op, case.a.0);
    }

    #[test]
    fn unary((w, signed, op) in (width(), any::<bool>(), 0..3usize), seed in any::<[u8; 40]>()) {
        let op = [UnaryOp::Neg, UnaryOp::Not, UnaryOp::LogicalNot][op];
        let ty = if op == UnaryOp::LogicalNot { Type::Bool } else { ty(w, signed) };
        let a = eval::wrap(ty.width(), &BigUint::from_bytes_le(&seed));
        let case = Case { a: (ty, a.clone()), b: (Type::Bit(8), BigUint::ZERO), result: ty };
        prop_assert_eq!(run(&case, |b, x, _| b.unary(op, x)), eval::unary(op, ty, &a));
    }

    #[test]
    fn cast((from, from_signed) in (width(), any::<bool>()), (to, to_signed) in (width(), any::<bool>()),
            seed in any::<[u8; 40]>()) {
        let (from, to) = (ty(from, from_signed), ty(to, to_signed));
        let a = eval::wrap(from.width(), &BigUint::from_bytes_le(&seed));
        let case = Case { a: (from, a.clone()), b: (Type::Bit(8), BigUint::ZERO), result: to };
        prop_assert_eq!(run(&case, |b, x, _| b.cast(to, x)), eval::cast(from, to, &a));
    }

    #[test]
    fn slice_and_concat(wa in width(), wb in width(), x in 0..400u32, y in 0..400u32, seed in any::<[u8; 40]>()) {
        let a = eval::wrap(wa, &BigUint::from_bytes_le(&seed));
        let b = eval::wrap(wb, &BigUint::from_bytes_be(&seed));
        let (x, y) = (x % wa, y % wa);
        let (hi, lo) = (x.max(y), x.min(y));
        let pair = |result| Case { a: (Type::Bit(wa), a.clone()), b: (Type::Bit(wb), b.clone()), result };
        let got = run(&pair(Type::Bit(hi - lo + 1)), |body, x, _| body.slice(x, hi, lo));
        prop_assert_eq!(got, eval::slice(&a, hi, lo));
        let got = run(&pair(Type::Bit(wa + wb)), |body, x, y| body.concat(x, y));
        prop_assert_eq!(got, eval::concat(&a, &b, wb));
    }

    #[test]
    fn select(w in width(), cond in any::<bool>(), seed in any::<[u8; 40]>()) {
        let a = eval::wrap(w, &BigUint::from_bytes_le(&seed));
        let b = eval::wrap(w, &BigUint::from_bytes_be(&seed));
        let case = Case { a: (Type::Bit(w), a.clone()), b: (Type::Bit(w), b.clone()), result: Type::Bit(w) };
        let got = run(&case, |body, x, y| {
            let c = body.bool(cond);
            body.select(c, x, y)
        });
        prop_assert_eq!(got, if cond { a } else { b });
    }
}

/// A load returns the value at its time, not that of a later store.
#[test]
fn load_before_store() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("x", Type::Bit(8)), ("y", Type::Bit(8))]);
    let (x, y) = (t.field(h, 0), t.field(h, 1));
    t.parser(ControlKind::Parser, &[h]);
    let mut b = BodyBuilder::new();
    // Swap.
    let (vx, vy) = (b.load(&t.p, x), b.load(&t.p, y));
    b.store(x, vy);
    b.store(y, vx);
    // A header operation between load and use.
    let kept = b.load(&t.p, x);
    b.set_invalid(h);
    b.set_valid(h);
    b.store(y, kept);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    assert_eq!(sent(&interp.process(&[1, 2], 0, 0)), [(0, vec![0, 2])]);
}

/// Arguments of a jump are moved in parallel: here two parameters swap in a loop.
#[test]
fn parallel_moves_in_a_loop() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("x", Type::Bit(8)), ("y", Type::Bit(8)), ("n", Type::Bit(8))]);
    let fields: Vec<VarId> = (0..3).map(|n| t.field(h, n)).collect();
    t.parser(ControlKind::Parser, &[h]);
    let mut b = BodyBuilder::new();
    let args: Vec<Value> = fields.iter().map(|f| b.load(&t.p, *f)).collect();
    let head = b.create_block();
    let params: Vec<Value> = (0..3).map(|_| b.append_param(head, Type::Bit(8))).collect();
    b.jump_with(head, args);
    b.switch_to(head);
    let zero = b.bits(8, 0u8);
    let done = b.eq(params[2], zero);
    let (body, end) = (b.create_block(), b.create_block());
    b.branch(done, end, body);
    b.switch_to(body);
    let one = b.bits(8, 1u8);
    let less = b.binary(BinaryOp::Sub, params[2], one);
    b.jump_with(head, vec![params[1], params[0], less]);
    b.switch_to(end);
    b.store(fields[0], params[0]);
    b.store(fields[1], params[1]);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    assert_eq!(sent(&interp.process(&[1, 2, 3], 0, 0)), [(0, vec![2, 1, 3])]);
    assert_eq!(sent(&interp.process(&[1, 2, 4], 0, 0)), [(0, vec![1, 2, 4])]);
}

/// Switches on values of one register slot and of several.
#[test]
fn switch() {
    for width in [8u32, 128] {
        let mut t = Build::v1model();
        let h = t.header("h", &[("x", Type::Bit(width)), ("y", Type::Bit(8))]);
        let (x, y) = (t.field(h, 0), t.field(h, 1));
        t.parser(ControlKind::Parser, &[h]);
        let mut b = BodyBuilder::new();
        let value = b.load(&t.p, x);
        let blocks: Vec<Block> = (0..3).map(|_| b.create_block()).collect();
        let high = BigUint::from(7u8) << (width - 8);
        let case = |bits: BigUint, block| (Const::new(Type::Bit(width), bits), block);
        b.switch(value, vec![case(high.clone(), blocks[0]), case(BigUint::from(2u8), blocks[1])], blocks[2]);
        for (n, block) in blocks.iter().enumerate() {
            b.switch_to(*block);
            set(&mut b, &t.p, y, n as u128 + 10);
            b.ret();
        }
        t.control(ControlKind::Ingress, b);
        t.deparser(ControlKind::Deparser, &[h]);
        let mut interp = t.load();
        let mut result = |value: BigUint| {
            let packet = packed(&[(width, &value), (8, &BigUint::ZERO)]);
            *sent(&interp.process(&packet, 0, 0))[0].1.last().unwrap()
        };
        assert_eq!((result(high), result(BigUint::from(2u8)), result(BigUint::from(3u8))), (10, 11, 12));
    }
}

/// A copy between members of a union: the source becomes invalid, the values arrive.
#[test]
fn copy_within_a_union() {
    let mut t = Build::v1model();
    let a = t.header("u.a", &[("x", Type::Bit(16))]);
    let ty = t.p.headers[a].ty;
    let b = t.p.add_header("u.b", ty, false, SourceLoc::default());
    t.p.add_union("u", vec![a, b]);
    t.parser(ControlKind::Parser, &[a]);
    let mut body = BodyBuilder::new();
    body.copy_header(b, a);
    body.ret();
    t.control(ControlKind::Ingress, body);
    t.deparser(ControlKind::Deparser, &[b, a]);
    let mut interp = t.load();
    assert_eq!(sent(&interp.process(&[1, 2, 3], 0, 0)), [(0, vec![1, 2, 3])]);
}
