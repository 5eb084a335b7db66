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
    /// Adds the product of two words, each plus its secret, to the sum. The product of two missing
    /// words is a constant, computed here.
    fn add(&mut self, e: &mut FlowCodeBuilder<'_>, words: [KeyWord; 2], secrets: [u64; 2]) {
        if let [KeyWord::Nothing, KeyWord::Nothing] = words {
            self.known = self.known.wrapping_add(u128::from(secrets[0]) * u128::from(secrets[1]));
            return;
        }
        let [mut first, second] = words;
        if let KeyWord::Nothing = first {
            // The product is commutative.
            return self.add(e, [second, first], [secrets[1], secrets[0]]);
        }
        let mut with_secret = |word: &mut KeyWord, secret: u64| {
            let secret = e.load_constant(secret);
            let sum = match word {
                KeyWord::Of(word) => e.b.ins().iadd(*word, secret),
                KeyWord::Nothing => secret,
            };
            e.b.ins().uextend(I128, sum)
        };
        let mut second = second;
        let (first, second) = (with_secret(&mut first, secrets[0]), with_secret(&mut second, secrets[1]));
        let product = e.b.ins().imul(first, second);
        self.sum = Some(self.sum.map_or(product, |sum| e.b.ins().iadd(sum, product)));
    }
}

impl FlowKeySpec {
    /// Emits a word of the key: masked bytes of the packet, and the lengths in it as distances to
    /// the packet's length. `index` counts words of 8 bytes.
    fn word(&self, e: &mut FlowCodeBuilder<'_>, index: usize) -> KeyWord {
        let mask = self.masks.get(index).copied().unwrap_or(0);
        let mut word = (mask != 0).then(|| {
            let word = e.load_packet_word(self.first + 8 * index);
            e.apply_mask(word, mask)
        });
        let begin = (self.first + 8 * index) as i64;
        for offset in &self.near {
            let byte = *offset as i64 - begin;
            if !(-1..8).contains(&byte) {
                continue;
            }
            let distance = e.distance_to_length(*offset);
            let bits = match byte {
                -1 => e.b.ins().ushr_imm_u(distance, 8),
                _ => e.b.ins().ishl_imm_u(distance, 8 * byte),
            };
            word = Some(word.map_or(bits, |word| e.b.ins().bor(word, bits)));
        }
        word.map_or(KeyWord::Nothing, KeyWord::Of)
    }
}

/// Emits the hash of a packet's key: a sum of products of two words each, with secrets, then folded
/// and mixed again, so that each bit depends on all words.
pub fn emit_key_hash(e: &mut FlowCodeBuilder<'_>, key: &FlowKeySpec, hashing: &KeyHashSpec) -> cl::Value {
    let secrets = &hashing.secrets;
    let mut sum = ProductSum::default();
    let first_word = KeyWord::Of(e.first_key_word(key));
    sum.add(e, [first_word, KeyWord::Nothing], [secrets[0][0], secrets[0][1].wrapping_add(u64::from(hashing.shape))]);
    let pairs = key.masks.len() / 2;
    let last = match key.masks.len() % 2 {
        1 => key.word(e, 2 * pairs),
        _ => KeyWord::Nothing,
    };
    sum.add(e, [last, KeyWord::Nothing], secrets[1]);
    for pair in 0..pairs {
        let words = [0, 1].map(|half| key.word(e, 2 * pair + half));
        sum.add(e, words, secrets[2 + pair]);
    }
    let [low, high] = [sum.known as u64, (sum.known >> 64) as u64].map(|half| e.load_constant(half));
    let known = e.b.ins().iconcat(low, high);
    let sum = sum.sum.map_or(known, |sum| e.b.ins().iadd(sum, known));
    let folded = fold_halves(e, sum);
    let odd_secret = e.load_constant(secrets[0][0] | 1);
    let [folded, odd_secret] = [folded, odd_secret].map(|word| e.b.ins().uextend(I128, word));
    let mixed = e.b.ins().imul(folded, odd_secret);
    fold_halves(e, mixed)
}

/// Combines the low and the high half by exclusive or.
fn fold_halves(e: &mut FlowCodeBuilder<'_>, product: cl::Value) -> cl::Value {
    let (low, high) = e.b.ins().isplit(product);
    e.b.ins().bxor(low, high)
}
