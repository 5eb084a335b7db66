//! Tables that packets write, against a sequential model and by several threads.

mod changes;
mod counts;
mod random;
mod reference;
mod sequential;
mod threads;
