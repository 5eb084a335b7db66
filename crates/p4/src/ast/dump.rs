//! The tree as text, for `--dump syntax` and goldens.
