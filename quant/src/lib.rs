//! Block formats.
