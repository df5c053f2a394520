//! The pipeline cache on disk.
//!
//! The driver is never handed bytes that this program did not write for this very driver: the file starts with a magic,
//! the drivers' ids and a checksum, and whatever does not match is ignored.

use super::caps::Caps;
use ash::vk;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files written beside the kept one so far, so that no two threads write to the same.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Where something learnt about this device and driver is kept, in the user's cache folder.
pub fn cache_file(caps: &Caps, name: &str, ending: &str) -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))?;
    Some(base.join("pumex").join(format!("{name}-{}-{}.{ending}", caps.uuid, caps.driver_uuid)))
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// What the file has to start with.
fn header(caps: &Caps, data: &[u8]) -> Vec<u8> {
    let id = format!("pumex pipelines 1 {} {} {}\n", caps.driver_uuid, caps.driver, caps.api_version);
    let mut bytes = id.into_bytes();
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(checksum(data).to_le_bytes());
    bytes
}

/// The verified part of a cache file, if it is one of this driver's.
fn verified<'a>(caps: &Caps, file: &'a [u8]) -> Option<&'a [u8]> {
    let head = header(caps, &[]).len();
    let data = file.get(head..)?;
    (header(caps, data) == file[..head]).then_some(data)
}

/// The pipeline cache that an earlier process kept, and its size; an empty one if there is none.
pub(super) fn load(raw: &ash::Device, caps: &Caps) -> (vk::PipelineCache, u64) {
    let file = cache_file(caps, "pipelines", "bin").and_then(|p| std::fs::read(p).ok()).unwrap_or_default();
    let data = verified(caps, &file).unwrap_or(&[]);
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: the data was written by this driver and is whole; an empty cache is always allowed.
    let cache = unsafe { raw.create_pipeline_cache(&info, None) }.unwrap_or_default();
    (cache, data.len() as u64)
}

/// Writes the file beside the former one and renames it; failing to only costs time later.
pub(super) fn save(caps: &Caps, data: &[u8]) {
    let Some(path) = cache_file(caps, "pipelines", "bin") else { return };
    let mut bytes = header(caps, data);
    bytes.extend(data);
    let temporary = path.with_extension(format!("{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let written =
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&temporary, bytes));
    if let Err(e) = written.and_then(|()| std::fs::rename(&temporary, &path)) {
        tracing::warn!("pipeline cache {}: {e}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::{Caps, DeviceKind};
    use super::*;

    #[test]
    fn only_a_whole_cache_file_of_the_same_driver_reaches_the_driver() {
        let caps = Caps::made_up("Acme One", DeviceKind::Discrete);
        let data = b"what the driver gave";
        let mut file = header(&caps, data);
        file.extend(data);
        assert_eq!(verified(&caps, &file), Some(&data[..]));
        for at in 0..file.len() {
            assert_eq!(verified(&caps, &file[..at]), None, "cut at {at}");
            let mut flipped = file.clone();
            flipped[at] ^= 1;
            assert_eq!(verified(&caps, &flipped), None, "byte {at} changed");
        }
        let other = Caps { driver: "Acme 2.0".into(), ..caps };
        assert_eq!(verified(&other, &file), None);
    }
}
