//! [`ElementArray`]: the elements of a counter or register.

use std::collections::HashMap;

/// Maximum size in 64-bit words of an array that is allocated as a whole. Elements of larger ones
/// are allocated when they are written.
const DENSE: u64 = 1 << 23;

/// Array of elements of a fixed number of words, all initially `initial`.
#[derive(Clone, Debug)]
pub struct ElementArray {
    stride: usize,
    size: u64,
    initial: Box<[u64]>,
    dense: Vec<u64>,
    sparse: HashMap<u64, Box<[u64]>>,
}

impl ElementArray {
    /// Creates an array, dense up to [`DENSE`] words.
    pub fn new(size: u64, initial: Box<[u64]>) -> ElementArray {
        let stride = initial.len();
        let words = size.saturating_mul(stride as u64);
        let zero = initial.iter().all(|word| *word == 0);
        let dense = match words <= DENSE {
            true if zero => vec![0; words as usize],
            true => initial.repeat(size as usize),
            false => Vec::new(),
        };
        ElementArray { stride, size, initial, dense, sparse: HashMap::new() }
    }

    /// Creates a sparse array, which allocates elements when they are written.
    pub fn sparse(size: u64, initial: Box<[u64]>) -> ElementArray {
        ElementArray { stride: initial.len(), size, initial, dense: Vec::new(), sparse: HashMap::new() }
    }

    /// Returns whether an element of a sparse array was written.
    pub fn is_written(&self, index: u64) -> bool {
        self.sparse.contains_key(&index)
    }

    /// Resets a sparse array to its initial value.
    pub fn reset(&mut self) {
        self.sparse.clear();
    }

    /// Returns the words of an element; `None` beyond the end.
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

    /// Returns the words of an element for writing; `None` beyond the end.
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

    /// Sets all elements to one value. A dense array stays at its address.
    pub fn fill(&mut self, value: &[u64]) {
        if self.dense.is_empty() {
            *self = ElementArray::new(self.size, value.into());
        } else {
            self.dense.chunks_exact_mut(self.stride.max(1)).for_each(|element| element.copy_from_slice(value));
        }
    }

    /// Returns all elements of a dense array, one after the other.
    pub fn dense_mut(&mut self) -> Option<&mut [u64]> {
        (!self.dense.is_empty()).then_some(&mut self.dense)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.size
    }
}
