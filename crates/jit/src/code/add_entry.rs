//! PNA's `add_entry`.

use crate::code::stage::StageBuilder;
use crate::plan::stages::StageEntry;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use ir::added_table;
use ir::{Entity, Inst, Type, Value};

impl StageBuilder<'_, '_> {
    /// Emits a call of `add_entry`. The key of the entry is the one that the packet has looked up:
    /// it is still in the queue of the stage behind that lookup. A call in another stage is noted,
    /// because the engine then refuses the program.
    pub(super) fn add_entry(&mut self, inst: &Inst, results: &[Value]) {
        let Inst::Extern { args, .. } = inst else { return };
        let Some(table) = added_table(inst).filter(|table| self.c.packet_written[table.index()]) else {
            let never = self.iconst_u64(0);
            return self.set_added(results, never);
        };
        if !matches!(self.start, StageEntry::Table(_, looked_up) if looked_up == table) {
            self.c.has_misplaced_addition.set(true);
        }
        self.store_call_args(args);
        let hit = self.hit_argument(args);
        let key = self.queued_key_address();
        let site = self.c.site(self.control, inst, results.iter().map(|r| self.value_type(*r)).collect());
        let site = self.iconst_u64(site as u64);
        let (context, frame) = (self.context, self.frame);
        let added = self.call_helper(self.c.helpers.add_entry, &[context, frame, site, hit, key], true);
        let added = added.unwrap_or(hit);
        self.set_added(results, added);
    }

    /// Sets the result of the call, a bool.
    fn set_added(&mut self, results: &[Value], added: cl::Value) {
        for result in results {
            let ty = self.value_type(*result);
            let regs = self.cast(Type::Bit(64), ty, &[added]);
            self.set_value(*result, &regs);
        }
    }

    /// Returns the address of the packet's key in the queue of this stage.
    fn queued_key_address(&mut self) -> cl::Value {
        let queue = self.c.memory.queues[self.c.stage.get()];
        let position = self.b.ins().isub(self.queue_entry, self.context);
        let position = self.b.ins().iadd_imm_s(position, -i64::from(queue.frames));
        // A list of addresses has a word for each packet.
        let offset = self.b.ins().imul_imm_s(position, queue.key_words as i64);
        let key = self.b.ins().iadd(self.context, offset);
        self.b.ins().iadd_imm_s(key, i64::from(queue.keys))
    }
}
