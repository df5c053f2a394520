//! GPUs of other vendors, and those of NVIDIA whose driver tells no multiprocessors: the shapes found best on an H200, for 128
//! multiprocessors. None of these devices was measured; a class that is gets a file of its own.

use super::nvidia;
use super::table::{Choices, Evidence};

/// What is chosen.
pub(super) const CHOICES: Choices =
    Choices { evidence: Evidence::Estimate("as measured on an NVIDIA H200"), ..nvidia::CHOICES };
