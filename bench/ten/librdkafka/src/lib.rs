//! The crate has only tests.
