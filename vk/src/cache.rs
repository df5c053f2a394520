//! The pipeline cache on disk.
//!
//! The driver is never handed bytes that this program did not write for this very driver: the file starts with a magic,
//! the drivers' ids and a checksum, and whatever does not match is ignored.

use super::caps::Caps;
use ash::vk;
use std::path::{Path, PathBuf};
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

/// What the file has to start with. `modules`: a number of those that its pipelines are made of.
fn header(caps: &Caps, modules: u64, data: &[u8]) -> Vec<u8> {
    let Caps { vendor_id, device_id, driver_uuid, driver, driver_version, api_version, .. } = caps;
    let device = format!("{vendor_id:x}:{device_id:x} {driver_uuid} {driver} {driver_version} {api_version}");
    let mut bytes = format!("pumex 2 {device} {modules:016x}\n").into_bytes();
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(checksum(data).to_le_bytes());
    bytes
}

/// The verified part of a cache file, if it is one of this driver's and these modules'.
fn verified_part<'a>(caps: &Caps, modules: u64, file: &'a [u8]) -> Option<&'a [u8]> {
    let head = header(caps, modules, &[]).len();
    let data = file.get(head..)?;
    (header(caps, modules, data) == file[..head]).then_some(data)
}

/// The pipeline cache that an earlier process kept, and its size; an empty one if there is none.
pub(super) fn load(raw: &ash::Device, caps: &Caps, modules: u64) -> (vk::PipelineCache, u64) {
    let file = cache_file(caps, "pipelines", "bin").and_then(|p| std::fs::read(p).ok()).unwrap_or_default();
    let data = verified_part(caps, modules, &file).unwrap_or(&[]);
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: the data was written by this driver and is whole; an empty cache is always allowed.
    let cache = unsafe { raw.create_pipeline_cache(&info, None) }.unwrap_or_default();
    (cache, data.len() as u64)
}

/// Writes the file beside the former one and renames it; failing to only costs time later.
pub(super) fn save(caps: &Caps, modules: u64, data: &[u8]) {
    let Some(path) = cache_file(caps, "pipelines", "bin") else { return };
    let mut bytes = header(caps, modules, data);
    bytes.extend(data);
    if let Err(e) = write_whole(&path, &bytes) {
        tracing::warn!("pipeline cache {}: {e}", path.display());
    }
}

/// Writes a file beside the former one, with its folder, and renames it, so that nobody reads a part of it.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension(format!("{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, path)
}

/// Something learnt about a device, its driver and these modules, kept beside the pipelines; none where it is not known, or the
/// file is not whole.
pub fn recall(caps: &Caps, modules: u64, name: &str) -> Option<Vec<u8>> {
    let file = std::fs::read(cache_file(caps, name, "json")?).ok()?;
    verified_part(caps, modules, &file).map(<[u8]>::to_vec)
}

/// Keeps it; failing to only costs time later.
pub fn remember(caps: &Caps, modules: u64, name: &str, data: &[u8]) {
    let Some(path) = cache_file(caps, name, "json") else { return };
    let bytes = [&header(caps, modules, data), data].concat();
    if let Err(e) = write_whole(&path, &bytes) {
        tracing::warn!("{}: {e}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::{Caps, DeviceKind};
    use super::*;

    #[test]
    fn only_a_whole_cache_file_of_the_same_driver_and_modules_reaches_the_driver() {
        let caps = Caps::synthetic("Acme One", DeviceKind::Discrete);
        let data = b"what the driver gave";
        let mut file = header(&caps, 7, data);
        file.extend(data);
        assert_eq!(verified_part(&caps, 7, &file), Some(&data[..]));
        for at in 0..file.len() {
            assert_eq!(verified_part(&caps, 7, &file[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(verified_part(&caps, 7, &flipped), None, "bit {bit} of byte {at} changed");
            }
        }
        assert_eq!(verified_part(&caps, 7, &[&file[..], b"!"].concat()), None, "more than was written");
        assert_eq!(verified_part(&caps, 8, &file), None, "other modules");
        let others = [
            Caps { driver: "Acme 2.0".into(), ..caps.clone() },
            Caps { driver_version: 2, ..caps.clone() },
            Caps { vendor_id: 1, ..caps.clone() },
            Caps { device_id: 1, ..caps.clone() },
            Caps { driver_uuid: "1".into(), ..caps },
        ];
        others.iter().for_each(|other| assert_eq!(verified_part(other, 7, &file), None));
    }

    /// Numbers of a plain generator stand in for a damaged disk.
    #[test]
    fn no_bytes_that_were_not_written_for_a_driver_reach_it() {
        let caps = Caps::synthetic("Acme One", DeviceKind::Discrete);
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut good = header(&caps, 7, &[9; 300]);
        good.extend([9; 300]);
        for _ in 0..20_000 {
            let mut file = good.clone();
            match next() % 3 {
                0 => (0..1 + next() % 8).for_each(|_| {
                    let at = next() as usize % file.len();
                    file[at] = file[at].wrapping_add(1 + (next() % 255) as u8);
                }),
                1 => file.truncate(next() as usize % good.len()),
                _ => file = (0..next() % 600).map(|_| next() as u8).collect(),
            }
            let found = verified_part(&caps, 7, &file);
            assert!(found.is_none() || file == good, "{file:?}");
        }
    }
}
