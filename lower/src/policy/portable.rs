//! GPUs of other vendors, and those of NVIDIA whose driver tells no multiprocessors: the shapes found best on an H200. None of
//! these devices was measured; a class that is gets a file of its own.

use super::nvidia;
use super::table::{known, Choices, Evidence};

/// What is chosen.
pub(super) const CHOICES: Choices = Choices {
    evidence: Evidence::Estimate("as measured on an NVIDIA H200"),
    megakernel_threads: known(None, Evidence::Estimate("nobody tried whether all workgroups run at once")),
    ..nvidia::CHOICES
};
