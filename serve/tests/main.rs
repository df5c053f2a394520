//! One test binary, linked once; a line per module.
