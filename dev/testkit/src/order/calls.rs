//! Evaluates calls, by the six steps of the section "Calling convention: call by copy in/copy out",
//! and table applications.

use super::evaluate::{CallFrame, EvaluatedPath, Evaluator, Flow, Run, WrongReading};
use super::tree::{Arg, CELLS, Call, Callee, Dir, Param, Place, Ty};
use super::value::Value;

/// Parameters of `r.read(result, index)`.
pub(super) const READ: [Param; 2] =
    [Param { dir: Dir::Out, ty: Ty::Bits, default: None }, Param { dir: Dir::In, ty: Ty::Bits, default: None }];
/// Parameters of `r.write(index, value)`.
pub(super) const WRITE: [Param; 2] =
    [Param { dir: Dir::In, ty: Ty::Bits, default: None }, Param { dir: Dir::In, ty: Ty::Bits, default: None }];

impl Evaluator<'_> {
    /// Evaluates a call and returns its result.
    pub(super) fn call(&mut self, call: &Call) -> Run<Option<Value>> {
        let params: &[Param] = match call.callee {
            Callee::Code(n) => &self.program.codes[n].params,
            Callee::RegisterRead => &READ,
            Callee::RegisterWrite => &WRITE,
        };
        // 2. "If a parameter has a default value and no corresponding argument is supplied, the
        // default value is used".
        let default = |param: &Param| Value::Bits(param.default.unwrap_or(0));
        let mut values: Vec<Value> =
            params.iter().map(|p| if p.dir == Dir::In { default(p) } else { Value::initial(p.ty) }).collect();
        let mut saved: Vec<(usize, EvaluatedPath, &Place)> = Vec::new();
        // 1. "Arguments are evaluated from left to right as they appear in the function call
        // expression."
        for (index, arg) in self.in_order(call) {
            match arg {
                // 4. "The value of each argument is saved into a temporary."
                Arg::In(value) => values[*index] = narrowed(self.expr(value)?, params[*index].ty),
                Arg::Place(place) => {
                    // 3. "For each out and inout argument the corresponding l-value is saved".
                    let path = self.place(place)?;
                    if params[*index].dir == Dir::InOut {
                        values[*index] = self.get(&path);
                    }
                    saved.push((*index, path, place));
                }
                Arg::Nothing => {}
            }
        }
        // 5. "The function is invoked with the temporaries as arguments."
        self.frames.push(CallFrame { params: values, ..CallFrame::default() });
        let outcome = self.run_body(call.callee);
        let temporaries = self.frames.pop().map(|frame| frame.params).unwrap_or_default();
        if outcome.is_err() && self.has_wrong_reading(WrongReading::ExitCopiesNothing) {
            return outcome;
        }
        // 6. "Copied in order from left to right into the l-values saved in Step 3", also after
        // return and exit.
        if self.has_wrong_reading(WrongReading::CopyOutReversed) {
            saved.reverse();
        }
        for (index, path, place) in saved {
            let path = if self.has_wrong_reading(WrongReading::LateIndex) { self.place(place)? } else { path };
            self.set(&path, temporaries[index].clone());
        }
        outcome
    }

    fn in_order<'c>(&self, call: &'c Call) -> Vec<&'c (usize, Arg)> {
        let mut args: Vec<&(usize, Arg)> = call.args.iter().collect();
        match self.wrong {
            Some(WrongReading::ArgumentsReversed) => args.reverse(),
            Some(WrongReading::Declared) => args.sort_by_key(|(n, _)| *n),
            _ => {}
        }
        args
    }

    /// Runs the body of a function, action or control with the parameters of the last frame, or a
    /// method of the register. The index of a register is taken modulo its size.
    fn run_body(&mut self, callee: Callee) -> Run<Option<Value>> {
        let program = self.program;
        let param_bits = |machine: &Self, index: usize| machine.frames.last().expect("a frame").params[index].bits();
        match callee {
            Callee::Code(n) => match self.run_stmts(&program.codes[n].body)? {
                Flow::Return(value) => Ok(value),
                Flow::Next => Ok(None),
            },
            Callee::RegisterRead => {
                let cell = self.cells[usize::from(param_bits(self, 1)) % CELLS];
                self.frames.last_mut().expect("a frame").params[0] = Value::Bits(cell);
                Ok(None)
            }
            Callee::RegisterWrite => {
                let (cell, value) = (usize::from(param_bits(self, 0)) % CELLS, param_bits(self, 1));
                self.cells[cell] = value;
                Ok(None)
            }
        }
    }

    /// Applies a table: evaluates its keys in order, looks them up, and runs the action. Returns
    /// whether it hit, and the action that ran.
    pub(super) fn apply(&mut self, table: usize) -> Run<(bool, usize)> {
        let table = &self.program.tables[table];
        let mut keys = vec![0; table.keys.len()];
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if self.has_wrong_reading(WrongReading::KeysReversed) {
            order.reverse();
        }
        for n in order {
            keys[n] = self.expr(&table.keys[n])?.bits() & 1;
        }
        let entry = table.entries.iter().find(|(wanted, _)| *wanted == keys);
        let action = entry.map_or(table.actions.len() - 1, |(_, action)| *action);
        self.call(&table.actions[action])?;
        Ok((entry.is_some(), action))
    }
}

fn narrowed(value: Value, ty: Ty) -> Value {
    if ty == Ty::Nibble { Value::Bits(value.bits() & 15) } else { value }
}
