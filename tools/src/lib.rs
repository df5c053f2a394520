//! Tools.

pub mod faults;
pub mod listing;
