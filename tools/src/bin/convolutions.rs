//! Speed of convolutions of images, by every kernel that the device has.
//!
//! usage: `convolutions`; prints, per shape and kernel, microseconds, TFLOP/s, and the GB/s of image, weights (halves) and result once.

use pumex::exec::{conv2d, Conv2dBuffers};
use pumex::kernel::Kernels;
use pumex::plan::Conv2d;
use pumex::policy::conv2d_tiles;
use pumex::vk::{self, Buffer, Class, Device};
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error>;

const WARM_UP: Duration = Duration::from_millis(150);
const LAUNCHES: usize = 8;

/// (name, inputs, outputs, side of the image, side of the window, stride, groups); padded so that windows of stride 1 keep the size.
const SHAPES: [(&str, usize, usize, usize, usize, usize, usize); 8] = [
    ("ViT-L/14 patches, 336", 3, 1024, 336, 14, 14, 1),
    ("SigLIP patches of 14, 896", 3, 1152, 896, 14, 14, 1),
    ("Qwen2-VL patches of 14, 1792", 3, 1280, 1792, 14, 14, 1),
    ("U-Net 3 x 3, 64 pixels", 320, 320, 64, 3, 1, 1),
    ("U-Net 3 x 3, 32 pixels", 640, 640, 32, 3, 1, 1),
    ("VAE 3 x 3, 512 pixels", 128, 128, 512, 3, 1, 1),
    ("1 x 1, 64 pixels", 1280, 320, 64, 1, 1, 1),
    ("depthwise 3 x 3, 112 pixels", 384, 384, 112, 3, 1, 384),
];

/// Microseconds of a launch, the fastest of many.
fn time(device: &Device, record: impl Fn(&mut vk::Recorder) -> pumex::Result<()>) -> Result<f64, Fault> {
    let mut recorder = device.recorder()?;
    for _ in 0..LAUNCHES {
        record(&mut recorder)?;
        recorder.barrier();
    }
    let recording = recorder.finish()?;
    let (mut best, mut rounds, begun) = (f64::INFINITY, 0, Instant::now());
    while rounds < 10 || begun.elapsed() < WARM_UP {
        rounds += 1;
        device.wait(device.submit(&recording)?)?;
        best = best.min(device.gpu_us(&recording).unwrap_or(f64::INFINITY));
    }
    Ok(best / LAUNCHES as f64)
}

/// A buffer of so many words, all the same.
fn create_filled_buffer(device: &Device, name: &str, words: usize, word: u32) -> Result<Buffer, Fault> {
    let buffer = device.buffer(name, 4 * words as u64, Class::Scratch)?;
    vk::send(device, &buffer, &word.to_le_bytes().repeat(words))?;
    Ok(buffer)
}

fn main() -> Result<(), Fault> {
    let device = Device::open(&vk::Options { select: vk::Select::Any, ..vk::Options::default() })?;
    let kernels = Kernels::new(&device);
    eprintln!("{}", device.caps().name);
    for (name, inputs, outputs, side, window, stride, groups) in SHAPES {
        let pad = if stride == 1 { window / 2 } else { 0 };
        let shape = Conv2d {
            images: 1,
            inputs,
            outputs,
            size: [side; 2],
            kernel: [window; 2],
            stride: [stride; 2],
            pad: [pad; 2],
            dilation: [1; 2],
            groups,
        };
        let [width, height] = shape.output()?;
        let x = create_filled_buffer(&device, "x", inputs * side * side, 1f32.to_bits())?;
        let w = create_filled_buffer(&device, "w", shape.weights().div_ceil(2), 0x3c00_3c00)?;
        let y = create_filled_buffer(&device, "y", outputs * width * height, 0)?;
        let flops = 2.0 * (width * height * shape.weights()) as f64;
        let bytes = (4 * (inputs * side * side + outputs * width * height) + 2 * shape.weights()) as f64;
        for tile in conv2d_tiles(device.caps()) {
            let buffers = Conv2dBuffers { x: &x, w: &w, halves: true, bias: None, y: &y };
            let us = time(&device, |recorder| conv2d(&kernels, recorder, (&shape, &tile), buffers))?;
            let (tflops, gbs) = (flops / us / 1e6, bytes / us / 1e3);
            println!("{name}\t{}\t{us:.1} us\t{tflops:.2} TFLOP/s\t{gbs:.0} GB/s", tile.kernel);
        }
    }
    Ok(())
}
