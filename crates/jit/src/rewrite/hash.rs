//! From a packet to the hash of its key.

use super::emit::Emit;
use super::{Hashing, Key};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I128;

/// What a word of a key is.
enum Word {
    /// No bit of the packet counts.
    Nothing,
    Of(cl::Value),
}

/// A sum of products: what is known of it, and the rest.
#[derive(Default)]
struct Sum {
    known: u128,
    sum: Option<cl::Value>,
}

impl Sum {
    fn add(&mut self, e: &mut Emit<'_>, words: [Word; 2], secrets: [u64; 2]) {
        if let [Word::Nothing, Word::Nothing] = words {
            self.known = self.known.wrapping_add(u128::from(secrets[0]) * u128::from(secrets[1]));
            return;
        }
        let [mut one, other] = words;
        if let Word::Nothing = one {
            // The product is the same whichever of the two comes first.
            return self.add(e, [other, one], [secrets[1], secrets[0]]);
        }
        let mut of = |word: &mut Word, secret: u64| {
            let secret = e.constant(secret);
            let sum = match word {
                Word::Of(word) => e.b.ins().iadd(*word, secret),
                Word::Nothing => secret,
            };
            e.b.ins().uextend(I128, sum)
        };
        let mut other = other;
        let (one, other) = (of(&mut one, secrets[0]), of(&mut other, secrets[1]));
        let product = e.b.ins().imul(one, other);
        self.sum = Some(self.sum.map_or(product, |sum| e.b.ins().iadd(sum, product)));
    }
}

impl Key {
    /// A word of the key.
    fn word(&self, e: &mut Emit<'_>, number: usize) -> Word {
        let mask = self.masks.get(number).copied().unwrap_or(0);
        let mut word = (mask != 0).then(|| {
            let word = e.word(self.first + 8 * number);
            e.masked(word, mask)
        });
        let begin = (self.first + 8 * number) as i64;
        for at in &self.near {
            let place = *at as i64 - begin;
            if !(-1..8).contains(&place) {
                continue;
            }
            let distance = e.near(*at);
            let bits = match place {
                -1 => e.b.ins().ushr_imm_u(distance, 8),
                _ => e.b.ins().ishl_imm_u(distance, 8 * place),
            };
            word = Some(word.map_or(bits, |word| e.b.ins().bor(word, bits)));
        }
        word.map_or(Word::Nothing, Word::Of)
    }
}

/// The hash of a packet's key.
pub fn hash(e: &mut Emit<'_>, key: &Key, hashing: &Hashing) -> cl::Value {
    let secrets = &hashing.secrets;
    let mut sum = Sum::default();
    let lead = Word::Of(e.lead(key));
    sum.add(e, [lead, Word::Nothing], [secrets[0][0], secrets[0][1].wrapping_add(u64::from(hashing.shape))]);
    let pairs = key.masks.len() / 2;
    let last = match key.masks.len() % 2 {
        1 => key.word(e, 2 * pairs),
        _ => Word::Nothing,
    };
    sum.add(e, [last, Word::Nothing], secrets[1]);
    for pair in 0..pairs {
        let words = [0, 1].map(|at| key.word(e, 2 * pair + at));
        sum.add(e, words, secrets[2 + pair]);
    }
    let [low, high] = [sum.known as u64, (sum.known >> 64) as u64].map(|half| e.constant(half));
    let known = e.b.ins().iconcat(low, high);
    let sum = sum.sum.map_or(known, |sum| e.b.ins().iadd(sum, known));
    let folded = halves(e, sum);
    let odd = e.constant(secrets[0][0] | 1);
    let [folded, odd] = [folded, odd].map(|word| e.b.ins().uextend(I128, word));
    let mixed = e.b.ins().imul(folded, odd);
    halves(e, mixed)
}

/// Low and high half, by exclusive or.
fn halves(e: &mut Emit<'_>, product: cl::Value) -> cl::Value {
    let (low, high) = e.b.ins().isplit(product);
    e.b.ins().bxor(low, high)
}
