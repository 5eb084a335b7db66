//! Checks of the repository: structure, language, documentation, and pages that are made from the code.

mod circles;
mod contributing;
mod documentation;
mod drop_reasons;
mod language;
mod sizes;
mod tidy;
mod tree;
