//! Tools.

pub mod listing;
