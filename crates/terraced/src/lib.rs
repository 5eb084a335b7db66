//! The composition of a binary: the one place where the core of Terrace meets the emulated switch,
//! tiers and flow caches. Without the cargo feature `wings` there is none of them.

use node::wings::Wings;

/// What this binary has besides native code and the reference engine.
pub fn wings() -> Wings {
    #[cfg(feature = "wings")]
    return Wings { switch: Some(&switch_engines::Switch), caches: Some(&cache_engines::Caches) };
    #[cfg(not(feature = "wings"))]
    Wings::default()
}
