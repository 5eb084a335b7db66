//! Function that hashes the key of a packet.

use super::emit::FlowCodeBuilder;
use super::{FlowKeySpec, KeyHashSpec};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I128;

/// A word of a key.
enum KeyWord {
    /// No bit of the packet counts.
    Nothing,
    Of(cl::Value),
}

/// A sum of products: its constant and its variable part.
#[derive(Default)]
struct ProductSum {
    known: u128,
    sum: Option<cl::Value>,
}

impl ProductSum {
    fn add(&mut self, e: &mut FlowCodeBuilder<'_>, words: [KeyWord; 2], secrets: [u64; 2]) {
        if let [KeyWord::Nothing, KeyWord::Nothing] = words {
            self.known = self.known.wrapping_add(u128::from(secrets[0]) * u128::from(secrets[1]));
            return;
        }
        let [mut one, other] = words;
        if let KeyWord::Nothing = one {
            // The product is commutative.
            return self.add(e, [other, one], [secrets[1], secrets[0]]);
        }
        let mut of = |word: &mut KeyWord, secret: u64| {
            let secret = e.load_constant(secret);
            let sum = match word {
                KeyWord::Of(word) => e.b.ins().iadd(*word, secret),
                KeyWord::Nothing => secret,
            };
            e.b.ins().uextend(I128, sum)
        };
        let mut other = other;
        let (one, other) = (of(&mut one, secrets[0]), of(&mut other, secrets[1]));
        let product = e.b.ins().imul(one, other);
        self.sum = Some(self.sum.map_or(product, |sum| e.b.ins().iadd(sum, product)));
    }
}

impl FlowKeySpec {
    /// Emits a word of the key.
    fn word(&self, e: &mut FlowCodeBuilder<'_>, number: usize) -> KeyWord {
        let mask = self.masks.get(number).copied().unwrap_or(0);
        let mut word = (mask != 0).then(|| {
            let word = e.load_packet_word(self.first + 8 * number);
            e.apply_mask(word, mask)
        });
        let begin = (self.first + 8 * number) as i64;
        for at in &self.near {
            let place = *at as i64 - begin;
            if !(-1..8).contains(&place) {
                continue;
            }
            let distance = e.distance_to_length(*at);
            let bits = match place {
                -1 => e.b.ins().ushr_imm_u(distance, 8),
                _ => e.b.ins().ishl_imm_u(distance, 8 * place),
            };
            word = Some(word.map_or(bits, |word| e.b.ins().bor(word, bits)));
        }
        word.map_or(KeyWord::Nothing, KeyWord::Of)
    }
}

/// Emits the hash of a packet's key.
pub fn emit_key_hash(e: &mut FlowCodeBuilder<'_>, key: &FlowKeySpec, hashing: &KeyHashSpec) -> cl::Value {
    let secrets = &hashing.secrets;
    let mut sum = ProductSum::default();
    let lead = KeyWord::Of(e.first_key_word(key));
    sum.add(e, [lead, KeyWord::Nothing], [secrets[0][0], secrets[0][1].wrapping_add(u64::from(hashing.shape))]);
    let pairs = key.masks.len() / 2;
    let last = match key.masks.len() % 2 {
        1 => key.word(e, 2 * pairs),
        _ => KeyWord::Nothing,
    };
    sum.add(e, [last, KeyWord::Nothing], secrets[1]);
    for pair in 0..pairs {
        let words = [0, 1].map(|at| key.word(e, 2 * pair + at));
        sum.add(e, words, secrets[2 + pair]);
    }
    let [low, high] = [sum.known as u64, (sum.known >> 64) as u64].map(|half| e.load_constant(half));
    let known = e.b.ins().iconcat(low, high);
    let sum = sum.sum.map_or(known, |sum| e.b.ins().iadd(sum, known));
    let folded = fold_halves(e, sum);
    let odd = e.load_constant(secrets[0][0] | 1);
    let [folded, odd] = [folded, odd].map(|word| e.b.ins().uextend(I128, word));
    let mixed = e.b.ins().imul(folded, odd);
    fold_halves(e, mixed)
}

/// Combines the low and the high half by exclusive or.
fn fold_halves(e: &mut FlowCodeBuilder<'_>, product: cl::Value) -> cl::Value {
    let (low, high) = e.b.ins().isplit(product);
    e.b.ins().bxor(low, high)
}
