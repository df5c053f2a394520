//! Convolutions of images on a device, against the reference, over shapes at the edges.

use crate::util::{device, nmse};
use pumex::cpu::conv2d as reference;
use pumex::exec::{conv2d, Conv2dBuffers};
use pumex::kernel::Kernels;
use pumex::plan::Conv2d;
use pumex::policy::{conv2d_tiles, Conv2dTile};
use pumex::vk::{self, Class, Device};

/// A window of 3 x 3 over three channels.
const USUAL: Conv2d = Conv2d {
    images: 1,
    inputs: 3,
    outputs: 8,
    size: [17, 11],
    kernel: [3, 3],
    stride: [1, 1],
    pad: [1, 1],
    dilation: [1, 1],
    groups: 1,
};

/// What is at the edges of a shape: (name, shape).
fn shapes() -> Vec<(&'static str, Conv2d)> {
    vec![
        ("3 x 3", USUAL),
        ("1 x 1", Conv2d { kernel: [1, 1], pad: [0, 0], inputs: 5, ..USUAL }),
        ("a single pixel", Conv2d { size: [1, 1], ..USUAL }),
        ("the whole image", Conv2d { kernel: [17, 11], pad: [0, 0], ..USUAL }),
        ("patches", Conv2d { size: [56, 28], kernel: [14, 14], stride: [14, 14], pad: [0, 0], outputs: 33, ..USUAL }),
        ("strides that leave some", Conv2d { stride: [3, 2], ..USUAL }),
        ("a stride beyond the window", Conv2d { kernel: [2, 2], stride: [5, 4], pad: [0, 0], ..USUAL }),
        ("dilated", Conv2d { dilation: [4, 2], pad: [3, 0], ..USUAL }),
        ("windows of zeros alone", Conv2d { pad: [6, 7], ..USUAL }),
        ("oblong", Conv2d { kernel: [5, 1], pad: [2, 0], stride: [2, 1], ..USUAL }),
        ("one output", Conv2d { outputs: 1, ..USUAL }),
        ("outputs beyond a tile", Conv2d { outputs: 7, inputs: 4, ..USUAL }),
        ("groups", Conv2d { groups: 3, inputs: 6, outputs: 15, ..USUAL }),
        ("each channel by itself", Conv2d { groups: 12, inputs: 12, outputs: 12, ..USUAL }),
        ("two for each channel", Conv2d { groups: 6, inputs: 6, outputs: 12, ..USUAL }),
        ("several images", Conv2d { images: 3, inputs: 4, groups: 2, stride: [2, 2], ..USUAL }),
        ("many pixels", Conv2d { size: [131, 67], inputs: 2, outputs: 5, ..USUAL }),
        ("many of all", Conv2d { size: [40, 30], inputs: 37, outputs: 150, ..USUAL }),
    ]
}

/// Numbers between -1 and 1 that halves hold.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut x = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        half::f16::from_f32((x >> 8) as f32 / (1 << 23) as f32 - 1.0).to_f32()
    };
    (0..len).map(|_| next()).collect()
}

fn run_conv2d(
    device: &Device,
    kernels: &Kernels,
    (shape, tile): (&Conv2d, &Conv2dTile),
    (x, w, bias): (&[f32], &[f32], Option<&[f32]>),
    halves: bool,
) -> Vec<f32> {
    let held = |name: &str, bytes: &[u8]| {
        let buffer = device.buffer(name, bytes.len() as u64, Class::Scratch).unwrap();
        vk::send(device, &buffer, bytes).unwrap();
        buffer
    };
    let [width, height] = shape.output().unwrap();
    let count = shape.images * shape.outputs * width * height;
    // What lies behind the last number must stay as it is.
    let mut all = vec![0f32; count + 64];
    all[count..].fill(7.5);
    let y = held("y", bytemuck::cast_slice(&all));
    let short: Vec<u16> = w.iter().map(|w| half::f16::from_f32(*w).to_bits()).collect();
    let w = if halves { held("w", bytemuck::cast_slice(&short)) } else { held("w", bytemuck::cast_slice(w)) };
    let (x, bias) = (held("x", bytemuck::cast_slice(x)), bias.map(|bias| held("bias", bytemuck::cast_slice(bias))));
    let host = device.buffer("host", 4 * all.len() as u64, Class::Readback).unwrap();
    let mut recorder = device.recorder().unwrap();
    let buffers = Conv2dBuffers { x: &x, w: &w, halves, bias: bias.as_ref(), y: &y };
    conv2d(kernels, &mut recorder, (shape, tile), buffers).unwrap();
    recorder.copy_barrier();
    recorder.copy(&y, 0, &host, 0, 4 * all.len() as u64);
    recorder.host_barrier();
    recorder.keep(&host);
    let recording = recorder.finish().unwrap();
    device.wait(device.submit(&recording).unwrap()).unwrap();
    host.read(0, bytemuck::cast_slice_mut(&mut all));
    assert!(all[count..].iter().all(|rest| *rest == 7.5), "{shape:?} writes beyond its end");
    all.truncate(count);
    all
}

/// By every kernel that the device has; cooperative matrices round to halves what is not, and sum up in floats.
#[test]
fn convolutions_agree_with_the_reference_at_the_edges_of_their_shapes() {
    let Some(device) = device(false) else { return };
    let kernels = Kernels::new(&device);
    for tile in conv2d_tiles(device.caps()) {
        let mut worst = 0f64;
        for (name, shape) in shapes() {
            let x = numbers(shape.images * shape.inputs * shape.size[0] * shape.size[1], 1);
            let (w, bias) = (numbers(shape.weights(), 2), numbers(shape.outputs, 3));
            for (halves, bias) in [(false, Some(&bias[..])), (true, Some(&bias[..])), (false, None)] {
                let truth = reference(&shape, &x, &w, bias).unwrap();
                let error = nmse(&run_conv2d(&device, &kernels, (&shape, &tile), (&x, &w, bias), halves), &truth);
                assert!(error < 1e-11, "{} of {name}, halves {halves}: NMSE {error:e}", tile.kernel);
                worst = worst.max(error);
            }
        }
        println!("{}: NMSE at most {worst:.1e}", tile.kernel);
    }
    crate::util::assert_silent_on(&device);
}

/// Numbers that can be told by heart: a window of ones counts the pixels that it meets.
#[test]
fn a_window_of_ones_counts_the_pixels_within_the_image() {
    let shape = Conv2d { inputs: 1, outputs: 1, size: [4, 3], ..USUAL };
    let counts = reference(&shape, &[1.0; 12], &[1.0; 9], None).unwrap();
    assert_eq!(counts, [4.0, 6.0, 6.0, 4.0, 6.0, 9.0, 9.0, 6.0, 4.0, 6.0, 6.0, 4.0]);
    let biased = reference(&Conv2d { groups: 1, ..shape }, &[1.0; 12], &[1.0; 9], Some(&[-4.0])).unwrap();
    assert_eq!(biased[..4], [0.0, 2.0, 2.0, 0.0]);
    let dilated = Conv2d { dilation: [2, 1], pad: [0, 0], size: [6, 3], ..shape };
    let pixels: Vec<f32> = (0..18).map(|i| i as f32).collect();
    // Corners of a window over three rows, two pixels apart.
    let truth = |left: usize| (0..3).flat_map(|y| [0, 2, 4].map(|x| (6 * y + left + x) as f32)).sum::<f32>();
    assert_eq!(reference(&dilated, &pixels, &[1.0; 9], None).unwrap(), [truth(0), truth(1)]);
}
