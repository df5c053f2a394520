//! Vulkan, and nothing else: devices, memory, pipelines, recordings, timeline. No word from machine learning here.
//!
//! Buffers are known by address, so there are no descriptors. Work is recorded once into a [`Recording`] and submitted
//! as often as wanted; a submission gets a value of its queue's timeline, and a wait is for one value.
//! This folder and `map.rs` are the only places with `unsafe`.
#![allow(unsafe_code)]

mod cache;
mod caps;
mod commands;
mod counters;
mod debug;
mod device;
mod executable;
mod fault;
mod import;
mod instance;
mod lock;
mod matrix2;
mod memory;
mod pipeline;
mod queue;
mod select;
mod shared_pipelines;
mod software;
mod spirv;
mod upload;

pub use cache::{cache_file, recall, remember};
pub use caps::{
    usable_columns, Caps, DeviceKind, Disabled, ElementType, FastDots, FlexibleShape, Heap, KernelSubgroup, Matrix2,
    MatrixScope, MatrixShape, MemoryType, Tuned, TunedProduct, TunedShape,
};
pub use commands::{Recorder, Recording};
pub use counters::{pipeline_progress, AnnouncedPipelines, Counters, PipelineProgress};
pub use device::{list, Device, Options};
pub use executable::Executable;
pub use memory::{memory_of, Buffer, Class, LEAST_BYTES};
pub use pipeline::Pipeline;
pub use select::{choose, choose_device, Select};
pub use spirv::{without_halves, without_subgroups, Module};
pub use upload::{repeat, send, upload, FinishedSlots, Load, Repack, UploadOptions, UploadSource};
