//! Records a convolution of images: direct, so that no buffer holds windows side by side.
//!
//! By cooperative matrices where there are some. No family has such convolutions yet, and so no op of the plan.

use crate::kernel::Kernels;
use pumex_gguf::Result;
use pumex_lower::policy::Conv2dTile;
use pumex_plan::Conv2d;
use pumex_shaders::block::Block;
use pumex_shaders::push;
use pumex_vk::{Buffer, Recorder};

/// What a convolution reads and writes.
#[derive(Clone, Copy)]
pub struct Conv2dBuffers<'a> {
    /// Images, floats `[images, inputs, height, width]`.
    pub x: &'a Buffer,
    /// Weights `[outputs, inputs / groups, kernel y, kernel x]`.
    pub w: &'a Buffer,
    /// Weights are halves, else floats.
    pub halves: bool,
    /// Floats `[outputs]`.
    pub bias: Option<&'a Buffer>,
    /// Images that come out, floats `[images, outputs, height, width]`.
    pub y: &'a Buffer,
}

/// Records it, by a tile of those that the device has, of which [`pumex_lower::policy::conv2d_tile`] is the best.
///
/// # Errors
/// As [`Conv2d::output`]; a module the driver refuses.
pub fn conv2d(
    kernels: &Kernels,
    recorder: &mut Recorder,
    (shape, tile): (&Conv2d, &Conv2dTile),
    buffers: Conv2dBuffers<'_>,
) -> Result<()> {
    let [y_width, y_height] = shape.output()?.map(|n| n as u32);
    let Conv2dBuffers { x, w, halves, bias, y } = buffers;
    let pair = |pair: [usize; 2]| pair.map(|n| n as u32);
    let ([width, height], [kernel_x, kernel_y]) = (pair(shape.size), pair(shape.kernel));
    let ([stride_x, stride_y], [pad_x, pad_y]) = (pair(shape.stride), pair(shape.pad));
    let [dilation_x, dilation_y] = pair(shape.dilation);
    let push = push::Conv2d {
        x: x.address(),
        w: w.address(),
        bias: bias.map_or(0, Buffer::address),
        y: y.address(),
        inputs: shape.inputs as u32,
        outputs: shape.outputs as u32,
        width,
        height,
        y_width,
        y_height,
        kernel_x,
        kernel_y,
        stride_x,
        stride_y,
        pad_x,
        pad_y,
        dilation_x,
        dilation_y,
        groups: shape.groups as u32,
    };
    let weights = [("HALVES", u32::from(halves)), ("BIAS", u32::from(bias.is_some()))];
    let pipeline = kernels.get(tile.kernel, None, &[tile.spec(), weights.to_vec()].concat())?;
    let channels = (shape.outputs / shape.groups).div_ceil(tile.channels) * shape.groups;
    let pixels = (y_width as usize * y_height as usize).div_ceil(tile.pixels);
    let grid = [pixels as u32, channels as u32, shape.images as u32];
    recorder.dispatch(&pipeline, &push.bytes(), grid);
    [x, w, y].into_iter().chain(bias).for_each(|buffer| recorder.keep(buffer));
    Ok(())
}
