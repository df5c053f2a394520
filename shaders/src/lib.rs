//! Committed SPIR-V and the kernel table.
