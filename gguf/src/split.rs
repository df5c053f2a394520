//! Split sets: the first file names how many there are; the others are opened and checked against it.

use super::{Bytes, Gguf};
use crate::map::{FileAccess, Map};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Path of part `no` (from 0) of `count`, from the path of the first.
fn part_path(first: &Path, no: u32, count: u32) -> Option<PathBuf> {
    let name = first.file_name()?.to_str()?;
    let stem = name.strip_suffix(&format!("-00001-of-{count:05}.gguf"))?;
    Some(first.with_file_name(format!("{stem}-{:05}-of-{count:05}.gguf", no + 1)))
}

/// Opens the further files if `first` says there are any.
pub(super) fn complete(mut first: Gguf, access: FileAccess) -> Result<Gguf> {
    let path = first.path.clone();
    let fail = |code, what: String| Err(Error::file(&path, code, what));
    let Some(count) = first.meta.opt_u32("split.count")? else {
        return Ok(first);
    };
    if count == 0 || count > u32::from(u16::MAX) {
        return fail("bad_split_count", format!("split.count: expected 1 to 65535, found {count}"));
    }
    let no = first.meta.opt_u32("split.no")?.unwrap_or(0);
    if no != 0 {
        return fail("not_first_split", format!("split.no: expected the first file (0), found {no}"));
    }
    if count == 1 {
        return Ok(first);
    }
    if part_path(&path, 0, count).is_none() {
        let what = format!("split.count {count}: expected a file name ending in -00001-of-{count:05}.gguf");
        return fail("split_name", what);
    }
    for no in 1..count {
        let Some(part) = part_path(&path, no, count) else { continue };
        add(&mut first, (&part, access), no, count)?;
    }
    if let Some(total) = first.meta.opt_u32("split.tensors.count")? {
        if total as usize != first.tensors.len() {
            let what = format!("split.tensors.count: expected {total} tensors, found {}", first.tensors.len());
            return fail("split_tensor_count", what);
        }
    }
    Ok(first)
}

fn add(first: &mut Gguf, (path, access): (&Path, FileAccess), no: u32, count: u32) -> Result<()> {
    let fail = |code, what: String| Err(Error::file(path, code, what));
    if !path.exists() {
        return fail("split_missing", format!("expected part {} of {count} here, found no file", no + 1));
    }
    let part = Gguf::parse(path, Bytes::Map(Map::open_with(path, access)?))?;
    let found = part.meta.u32("split.no")?;
    if found != no {
        return fail("split_no_mismatch", format!("split.no: expected {no}, found {found}"));
    }
    let its_count = part.meta.opt_u32("split.count")?.unwrap_or(count);
    if its_count != count {
        return fail("split_count_mismatch", format!("split.count: expected {count}, found {its_count}"));
    }
    if let Some(arch) = part.meta.opt_str("general.architecture")? {
        if first.meta.arch().is_ok_and(|a| a != arch) {
            let ours = first.meta.arch()?;
            return fail("split_arch_mismatch", format!("general.architecture: expected {ours}, found {arch}"));
        }
    }
    let file = first.files.len();
    for mut tensor in part.tensors {
        if first.tensor(&tensor.name).is_some() {
            return fail("duplicate_tensor", format!("tensor {}: expected once in the set, found twice", tensor.name));
        }
        tensor.file = file;
        first.tensors.push(tensor);
    }
    first.files.extend(part.files);
    first.warnings.extend(part.warnings);
    Ok(())
}
