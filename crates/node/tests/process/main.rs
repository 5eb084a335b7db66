//! The process `terraced` as others see it.

mod daemon;
mod forward;
mod killed;
