//! The tests of this folder are the crate.
