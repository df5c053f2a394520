//! Push constants of kernels that ask something of a device.

use crate::block::blocks;

blocks! {
    /// What threads hold of a cooperative matrix.
    FragmentMap("fragment_layout") = {
        /// Place of each element, then how many there are.
        map: U32,
    }

    /// Reads, or copies, words of 16 bytes.
    Stream("stream") = {
        /// `[n]`.
        x: U32x4,
        /// `[n]`.
        y: Out,
        /// Words of 16 bytes.
        n: uint,
    }

    /// How many workgroups run at once.
    Occupancy("occupancy") = {
        /// How many are there, the most at once, and whether one has left.
        counts: U32,
    }
}
