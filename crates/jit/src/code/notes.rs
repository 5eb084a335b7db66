//! What native code notes of a packet's way ([`crate::record`]). Without effect unless the engine records.

use crate::code::stage::{StageCode, trusted};
use crate::record::{APPLICATIONS, Application, DECISIONS, INDICES, Notes, REJECTED};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I32, I64};
use ir::TableId;
use std::mem::offset_of;

impl StageCode<'_, '_> {
    /// The place of the next one in a list of so many, behind which is counted on; from the frame on.
    fn next_note(&mut self, count: usize, most: u32, each: usize) -> Option<(cl::Value, u32)> {
        let notes = self.c.layout.notes?;
        let at = (notes as usize + count) as i32;
        let before = self.b.ins().load(I32, trusted(), self.frame, at);
        let after = self.b.ins().iadd_imm_s(before, 1);
        self.b.ins().store(trusted(), after, self.frame, at);
        let place = self.b.ins().band_imm_u(before, i64::from(most) - 1);
        let place = self.b.ins().uextend(I64, place);
        let place = self.b.ins().imul_imm_s(place, each as i64);
        Some((self.b.ins().iadd(self.frame, place), notes))
    }

    fn note(&mut self, word: cl::Value) {
        if let Some((place, notes)) = self.next_note(offset_of!(Notes, decisions), DECISIONS, 4) {
            self.b.ins().store(trusted(), word, place, (notes as usize + offset_of!(Notes, decided)) as i32);
        }
    }

    /// The packet goes this way of several.
    pub fn note_choice(&mut self, choice: u32) {
        if self.c.layout.notes.is_some() {
            let word = self.b.ins().iconst(I32, i64::from(choice as i32));
            self.note(word);
        }
    }

    /// The parser rejects the packet here, and not where it may have done so before, which is not noted.
    pub fn note_rejected(&mut self) {
        let place = self.c.rejects.get();
        self.c.rejects.set(place + 1);
        self.note_choice(REJECTED | place);
    }

    /// Something is chosen by a bool.
    pub fn note_truth(&mut self, truth: cl::Value) {
        if self.c.layout.notes.is_some() {
            let word = self.b.ins().uextend(I32, truth);
            self.note(word);
        }
    }

    /// The action at that position is taken, with a hit or without.
    pub fn note_action(&mut self, position: usize, hit: cl::Value) {
        if self.c.layout.notes.is_some() {
            let hit = self.b.ins().uextend(I32, hit);
            let word = self.b.ins().iadd_imm_s(hit, 2 * position as i64);
            self.note(word);
        }
    }

    /// A table that has nothing to look up is applied.
    pub fn note_unasked(&mut self, table: TableId) {
        let next = self.next_note(offset_of!(Notes, applications), APPLICATIONS, size_of::<Application>());
        let Some((place, notes)) = next else { return };
        let keys = (notes as usize + offset_of!(Notes, keys)) as i32;
        let keys = self.b.ins().load(I32, trusted(), self.frame, keys);
        let [table, zero] = [table.0, 0].map(|number| self.b.ins().iconst(I32, i64::from(number)));
        let at = (notes as usize + offset_of!(Notes, applied)) as i32;
        for (word, value) in [table, zero, keys, zero].into_iter().enumerate() {
            self.b.ins().store(trusted(), value, place, at + 4 * word as i32);
        }
    }

    /// A counter counts in that element.
    pub fn note_index(&mut self, index: cl::Value) {
        if let Some((place, notes)) = self.next_note(offset_of!(Notes, indices), INDICES, 8) {
            self.b.ins().store(trusted(), index, place, (notes as usize + offset_of!(Notes, counted)) as i32);
        }
    }
}
