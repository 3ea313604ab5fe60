//! This crate has nothing but its tests.
