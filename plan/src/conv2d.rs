//! The shape of a convolution of images.

use pumex_gguf::{Error, Result};

/// A convolution: each channel out is a sum over the channels in of its group, and over a window of pixels. Pairs are of x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Images.
    pub images: usize,
    /// Channels in.
    pub inputs: usize,
    /// Channels out.
    pub outputs: usize,
    /// Pixels of an image, width and height.
    pub size: [usize; 2],
    /// Weights of a window.
    pub kernel: [usize; 2],
    /// Pixels from one window to the next.
    pub stride: [usize; 2],
    /// Zeros around the image, on either side.
    pub pad: [usize; 2],
    /// Pixels from one weight to the next.
    pub dilation: [usize; 2],
    /// Parts that channels are in, each on its own.
    pub groups: usize,
}

impl Conv2d {
    /// Width and height of what comes out.
    ///
    /// # Errors
    /// Sizes that are 0, channels that do not divide into groups, a window that is larger than the padded image, more pixels than
    /// kernels count.
    pub fn output(&self) -> Result<[usize; 2]> {
        let bad = |what: String| Err(Error::Request(format!("convolution: {what}")));
        let Conv2d { images, inputs, outputs, size, kernel, stride, pad, dilation, groups } = *self;
        let all =
            [images, inputs, outputs, groups].into_iter().chain([size, kernel, stride, dilation].into_iter().flatten());
        if all.clone().any(|n| n == 0) {
            return bad(format!("expected sizes above 0, found {self:?}"));
        }
        if !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return bad(format!("expected channels that {groups} groups divide, found {inputs} and {outputs}"));
        }
        let mut out = [0; 2];
        for axis in 0..2 {
            let spans = |n: usize, by: usize| n.checked_mul(by);
            let window = spans(kernel[axis] - 1, dilation[axis]).and_then(|n| n.checked_add(1));
            let padded = spans(pad[axis], 2).and_then(|n| n.checked_add(size[axis]));
            match (window, padded) {
                (Some(window), Some(padded)) if window <= padded => out[axis] = (padded - window) / stride[axis] + 1,
                _ => return bad(format!("expected a window within the padded image, found {self:?}")),
            }
        }
        let elements = |channels: usize, [x, y]: [usize; 2]| {
            [images, channels, x, y].iter().try_fold(1usize, |all, n| all.checked_mul(*n))
        };
        let weights =
            [outputs, inputs / groups, kernel[0], kernel[1]].iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        let counted = [elements(inputs, size), elements(outputs, out), weights];
        if counted.iter().any(|n| n.is_none_or(|n| n > i32::MAX as usize)) {
            return bad(format!("expected at most {} elements of a tensor, found {self:?}", i32::MAX));
        }
        Ok(out)
    }

    /// Weights of all channels.
    pub fn weights(&self) -> usize {
        self.outputs * (self.inputs / self.groups) * self.kernel[0] * self.kernel[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 3 x 3.
    const USUAL: Conv2d = Conv2d {
        images: 1,
        inputs: 4,
        outputs: 8,
        size: [10, 7],
        kernel: [3, 3],
        stride: [1, 1],
        pad: [1, 1],
        dilation: [1, 1],
        groups: 1,
    };

    #[test]
    fn what_comes_out_has_a_pixel_for_each_place_of_the_window() {
        let of = |shape: Conv2d| shape.output().ok();
        assert_eq!(of(USUAL), Some([10, 7]));
        assert_eq!(of(Conv2d { pad: [0, 2], ..USUAL }), Some([8, 9]));
        assert_eq!(of(Conv2d { stride: [2, 3], ..USUAL }), Some([5, 3]));
        assert_eq!(of(Conv2d { dilation: [4, 2], ..USUAL }), Some([4, 5]));
        assert_eq!(of(Conv2d { kernel: [10, 7], pad: [0, 0], ..USUAL }), Some([1, 1]));
        assert_eq!(Conv2d { groups: 2, ..USUAL }.weights(), 8 * 2 * 9);
    }

    #[test]
    fn shapes_that_are_none_are_refused() {
        let told = |shape: Conv2d| shape.output().unwrap_err().to_string();
        assert!(told(Conv2d { stride: [0, 1], ..USUAL }).contains("above 0"));
        assert!(told(Conv2d { groups: 3, ..USUAL }).contains("3 groups"));
        assert!(told(Conv2d { kernel: [13, 3], ..USUAL }).contains("within the padded image"));
        assert!(told(Conv2d { kernel: [2, 3], dilation: [usize::MAX, 1], ..USUAL }).contains("within the padded image"));
        assert!(told(Conv2d { size: [1 << 20, 1 << 20], ..USUAL }).contains("elements of a tensor"));
    }
}
