//! [`Array`]: the elements of a counter or register.

use std::collections::HashMap;

/// Arrays of up to this many words are allocated as a whole, larger ones element by element when written.
const DENSE: u64 = 1 << 23;

/// An array of elements of some words, all 0 or `initial` at first.
#[derive(Clone, Debug)]
pub struct Array {
    stride: usize,
    size: u64,
    initial: Box<[u64]>,
    dense: Vec<u64>,
    sparse: HashMap<u64, Box<[u64]>>,
}

impl Array {
    /// Elements that are all `initial`.
    pub fn new(size: u64, initial: Box<[u64]>) -> Array {
        let stride = initial.len();
        let words = size.saturating_mul(stride as u64);
        let zero = initial.iter().all(|word| *word == 0);
        let dense = match words <= DENSE {
            true if zero => vec![0; words as usize],
            true => initial.repeat(size as usize),
            false => Vec::new(),
        };
        Array { stride, size, initial, dense, sparse: HashMap::new() }
    }

    /// The same, each element allocated when it is written.
    pub fn sparse(size: u64, initial: Box<[u64]>) -> Array {
        Array { stride: initial.len(), size, initial, dense: Vec::new(), sparse: HashMap::new() }
    }

    /// Whether an element of a sparse array was written.
    pub fn has(&self, index: u64) -> bool {
        self.sparse.contains_key(&index)
    }

    /// A sparse array is as at first.
    pub fn forget(&mut self) {
        self.sparse.clear();
    }

    /// The words of an element; `None` beyond the end.
    pub fn get(&self, index: u64) -> Option<&[u64]> {
        if index >= self.size {
            return None;
        }
        if self.dense.is_empty() {
            return Some(self.sparse.get(&index).unwrap_or(&self.initial));
        }
        let first = index as usize * self.stride;
        Some(&self.dense[first..first + self.stride])
    }

    /// The words of an element, to be written.
    pub fn get_mut(&mut self, index: u64) -> Option<&mut [u64]> {
        if index >= self.size {
            return None;
        }
        if self.dense.is_empty() {
            let initial = &self.initial;
            return Some(self.sparse.entry(index).or_insert_with(|| initial.clone()));
        }
        let first = index as usize * self.stride;
        Some(&mut self.dense[first..first + self.stride])
    }

    /// Gives all elements one value. What is allocated as a whole stays where it is in memory.
    pub fn fill(&mut self, value: &[u64]) {
        if self.dense.is_empty() {
            *self = Array::new(self.size, value.into());
        } else {
            self.dense.chunks_exact_mut(self.stride.max(1)).for_each(|element| element.copy_from_slice(value));
        }
    }

    /// All elements, one after the other, if they are allocated as a whole.
    pub fn dense_mut(&mut self) -> Option<&mut [u64]> {
        (!self.dense.is_empty()).then_some(&mut self.dense)
    }

    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.size
    }
}
