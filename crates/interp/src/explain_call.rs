//! Recording of extern calls.

use crate::exec_context::ExecContext;
use crate::extern_calls::data_operands;
use crate::frame::Frame;
use crate::overseer::Overseer;
use crate::program::{CallArg, DecodedCall, Reg};
use crate::trace::TraceEvent;
use ir::{ExternFn, SourceLoc};

impl<O: Overseer> ExecContext<'_, O> {
    /// Formats the arguments. Must precede the call, because the call can change them.
    pub(crate) fn show_args(&self, frame: &Frame, call: &DecodedCall) -> Vec<String> {
        let format_list =
            |regs: &[Reg]| regs.iter().map(|reg| self.show_reg(frame, *reg)).collect::<Vec<_>>().join(", ");
        let format_arg = |arg: &CallArg| match arg {
            CallArg::Value(reg) => self.show_reg(frame, *reg),
            CallArg::Values(regs) => format!("{{{}}}", format_list(regs)),
            CallArg::Str(text) => format!("\"{text}\""),
            CallArg::Vars(vars) => {
                let names = vars.iter().filter_map(|var| self.program.var_names.get(var.0 as usize));
                format!("{{{}}}", names.map(String::as_str).collect::<Vec<_>>().join(", "))
            }
            CallArg::Table(table) => self.table_name(*table),
            CallArg::Action(action) => {
                self.pipeline.actions.get(*action).map(|a| a.preamble.name.clone()).unwrap_or_default()
            }
        };
        call.args.iter().map(format_arg).collect()
    }

    /// Records the call with its results. `arguments` were formatted before the call. `log_msg` is
    /// recorded as its message, with the arguments in place of `{}`.
    pub(crate) fn record_extern_call(
        &mut self,
        frame: &Frame,
        call: &DecodedCall,
        arguments: Vec<String>,
        loc: SourceLoc,
    ) {
        if call.func == ExternFn::LogMsg {
            let Some(CallArg::Str(format)) = call.args.first() else { return };
            let mut message = String::new();
            let mut values = data_operands(call, 1).iter();
            for (index, piece) in format.split("{}").enumerate() {
                if index > 0 {
                    message.push_str(&values.next().map_or("{}".to_owned(), |reg| self.show_reg(frame, *reg)));
                }
                message.push_str(piece);
            }
            return self.record_event(TraceEvent::Log { message }, loc);
        }
        let results = call.results.iter().map(|reg| self.show_reg(frame, *reg)).collect();
        let call = self.call_name(call.object, call.func);
        self.record_event(TraceEvent::Extern { call, arguments, results }, loc);
    }
}
