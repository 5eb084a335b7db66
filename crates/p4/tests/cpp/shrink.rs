//! Finds a smaller input that still differs.

/// Removes lines, then parts of lines, while the remaining input differs.
pub fn shrink(inputs: &[String], differs: &dyn Fn(&[String]) -> bool) -> Vec<String> {
    let mut inputs = inputs.to_vec();
    leave_out(&mut inputs, differs);
    for at in 0..inputs.len() {
        let with = |parts: &[String]| {
            let mut inputs = inputs.clone();
            inputs[at] = parts.concat();
            differs(&inputs)
        };
        let mut lines: Vec<String> = inputs[at].split_inclusive('\n').map(str::to_owned).collect();
        leave_out(&mut lines, &with);
        let mut characters: Vec<String> = lines.concat().chars().map(|c| c.to_string()).collect();
        if characters.len() < 400 {
            leave_out(&mut characters, &with);
        }
        inputs[at] = characters.concat();
    }
    inputs
}

/// Removes runs of parts, from half of them down to one.
fn leave_out(parts: &mut Vec<String>, differs: &dyn Fn(&[String]) -> bool) {
    let mut run = (parts.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < parts.len() {
            let end = (at + run).min(parts.len());
            let removed: Vec<String> = parts.drain(at..end).collect();
            if !differs(parts) {
                parts.splice(at..at, removed);
                at += run;
            }
        }
        if run == 1 {
            return;
        }
        run /= 2;
    }
}
