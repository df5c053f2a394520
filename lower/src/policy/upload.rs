//! How weights reach the device.

use super::class::choices;
use pumex_vk::{Caps, UploadOptions};

/// How weights reach a device whose memory the host does not use as its own, with `threads` of the host; and why so.
///
/// An H200 reads the host's memory at 51 GB/s, and at 45 with five slots of 8 MiB: four leave it waiting at times, more take
/// longer to make (0.4 ms a MiB) than they save. A window on all its memory takes 33 from a dozen cores.
pub fn upload_way(caps: &Caps, threads: usize) -> (UploadOptions, &'static str) {
    let shape = choices(caps).upload.value;
    let way =
        UploadOptions { threads: threads.clamp(1, shape.threads), batch_bytes: shape.batch_bytes, slots: shape.slots };
    (way, shape.reason)
}

/// Whether pipelines of usual steps are built while weights are sent.
pub fn builds_ahead(caps: &Caps) -> bool {
    choices(caps).builds_ahead.value
}
