//! Push constants of kernels that work on images.

use crate::block::blocks;

blocks! {
    /// Convolution of images.
    Conv2d("conv2d", "conv2d_staged", "conv2d_matrix2") = {
        /// `[n, inputs, height, width]`.
        x: F32,
        /// `[outputs, inputs / groups, kernel_y, kernel_x]`, floats or halves.
        w: uvec2,
        /// `[outputs]`, if BIAS.
        bias: F32,
        /// `[n, outputs, y_height, y_width]`.
        y: F32,
        /// Channels in.
        inputs: uint,
        /// Channels out.
        outputs: uint,
        /// Of `x`.
        width: uint,
        /// Of `x`.
        height: uint,
        /// Of `y`.
        y_width: uint,
        /// Of `y`.
        y_height: uint,
        /// Weights side by side.
        kernel_x: uint,
        /// Weights one below the other.
        kernel_y: uint,
        /// Pixels from one output to the next.
        stride_x: uint,
        /// Likewise, downwards.
        stride_y: uint,
        /// Zeros on the left, and on the right.
        pad_x: uint,
        /// Zeros above, and below.
        pad_y: uint,
        /// Pixels from one weight to the next.
        dilation_x: uint,
        /// Likewise, downwards.
        dilation_y: uint,
        /// Parts that channels are in, each on its own.
        groups: uint,
    }
}
