//! A convolution of images, as it is written down.

use pumex_gguf::Result;
use pumex_plan::Conv2d;

/// Images `[images, outputs, height, width]` of images `x` and weights `w` `[outputs, inputs / groups, kernel y, kernel x]`.
///
/// # Errors
/// As [`Conv2d::output`].
///
/// # Panics
/// If a slice is shorter than the shape says.
pub fn conv2d(shape: &Conv2d, x: &[f32], w: &[f32], bias: Option<&[f32]>) -> Result<Vec<f32>> {
    let [out_width, out_height] = shape.output()?;
    let Conv2d { images, inputs, outputs, size: [width, height], kernel, stride, pad, dilation, groups } = *shape;
    let (ins, outs) = (inputs / groups, outputs / groups);
    // The pixel of an axis that a weight meets, if there is one.
    let meets = |axis: usize, out: usize, weight: usize, len: usize| {
        let at = out * stride[axis] + weight * dilation[axis];
        at.checked_sub(pad[axis]).filter(|at| *at < len)
    };
    let mut y = Vec::with_capacity(images * outputs * out_width * out_height);
    for (image, channel) in (0..images).flat_map(|image| (0..outputs).map(move |channel| (image, channel))) {
        let first = channel / outs * ins;
        for (out_y, out_x) in (0..out_height).flat_map(|y| (0..out_width).map(move |x| (y, x))) {
            let mut sum = bias.map_or(0.0, |bias| f64::from(bias[channel]));
            for c in 0..ins {
                for (ky, in_y) in (0..kernel[1]).filter_map(|k| Some((k, meets(1, out_y, k, height)?))) {
                    for (kx, in_x) in (0..kernel[0]).filter_map(|k| Some((k, meets(0, out_x, k, width)?))) {
                        let pixel = x[((image * inputs + first + c) * height + in_y) * width + in_x];
                        let weight = w[((channel * ins + c) * kernel[1] + ky) * kernel[0] + kx];
                        sum += f64::from(pixel) * f64::from(weight);
                    }
                }
            }
            y.push(sum as f32);
        }
    }
    Ok(y)
}
