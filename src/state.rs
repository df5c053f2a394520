//! Sequences in files: what a runner keeps of one, with its ids, for the same model later.
//!
//! Magic, version, fingerprint of the model, how the runner's bytes lie, ids, those bytes, and a checksum of it all. A file is read
//! through and found whole before a runner sees any of it, and it stands at its place only when it is whole.

use crate::file::Replacing;
use crate::gguf::Gguf;
use crate::step::Runner;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"PUMEXSEQ";
const VERSION: u32 = 1;
/// Bytes before the ids: magic, version, fingerprint, hash of the layout, count of ids.
const HEAD: usize = 36;

/// A sum that any changed word changes.
#[derive(Clone, Copy, Debug)]
struct Sum {
    sum: u64,
    /// Bytes that fill no word yet, and how many.
    rest: [u8; 8],
    len: usize,
}

impl Sum {
    fn new() -> Sum {
        Sum { sum: 0xcbf2_9ce4_8422_2325, rest: [0; 8], len: 0 }
    }

    fn word(&mut self, word: [u8; 8]) {
        let mixed = (self.sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = mixed ^ (mixed >> 29);
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while let Some((first, others)) = bytes.split_first().filter(|_| self.len > 0) {
            self.rest[self.len] = *first;
            self.len = (self.len + 1) % 8;
            bytes = others;
            if self.len == 0 {
                self.word(self.rest);
            }
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(*word));
        if self.len == 0 {
            self.rest[..rest.len()].copy_from_slice(rest);
            self.len = rest.len();
        }
    }

    fn end(mut self) -> u64 {
        let len = self.len;
        self.rest[len..].fill(0);
        self.word(self.rest);
        self.word((len as u64).to_le_bytes());
        self.sum
    }
}

fn sum_of(bytes: &[u8]) -> u64 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.end()
}

/// What tells a model from others: its keys, the names, shapes and types of its tensors, and some bytes of each.
pub fn fingerprint(gguf: &Gguf) -> u64 {
    const SOME: usize = 64;
    let mut sum = Sum::new();
    for (key, value) in gguf.meta().iter() {
        sum.add(format!("{key}={}\n", value.display()).as_bytes());
    }
    for tensor in gguf.tensors() {
        sum.add(format!("{} {:?} {}\n", tensor.name, tensor.dims, tensor.type_id).as_bytes());
        let data = gguf.data(tensor);
        let middle = data.len() / 2;
        sum.add(&data[..SOME.min(data.len())]);
        sum.add(&data[middle..(middle + SOME).min(data.len())]);
    }
    sum.end()
}

/// The fingerprint of a model with adapters at these scales: what it keeps of a text is another model's at others.
pub fn with_scales(fingerprint: u64, scales: &[f32]) -> u64 {
    if scales.iter().all(|scale| *scale == 0.0) {
        return fingerprint;
    }
    let mut sum = Sum::new();
    sum.add(&fingerprint.to_le_bytes());
    scales.iter().for_each(|scale| sum.add(&scale.to_le_bytes()));
    sum.end()
}

/// A file under way, and the sum of what went there.
struct Out {
    file: Replacing,
    sum: Sum,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes).map_err(|e| match e {
            Error::Io { source, .. } => source,
            other => std::io::Error::other(other.to_string()),
        })?;
        self.sum.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// That at a path there is a saved sequence, an empty file or nothing: what names a file of this kind may name one of another by
/// mistake, such as a model that lies in the same folder.
fn ours(path: &Path) -> Result<()> {
    let other = |found: &str| {
        Err(Error::file(path, "no_state", format!("expected a saved sequence or nothing at its place, found {found}")))
    };
    match std::fs::metadata(path) {
        Err(_) => return Ok(()),
        Ok(meta) if !meta.is_file() => return other("no regular file"),
        Ok(_) => {}
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start));
    read.map_err(|e| Error::io(path, e))?;
    if start.is_empty() || start == MAGIC {
        return Ok(());
    }
    other("another kind of file")
}

/// Writes sequence `seq` of a runner, whose positions hold `ids`, to a file. No step may be in flight.
///
/// # Errors
/// Another number of ids than of positions, another kind of file at its place, a full disk, what the runner says.
pub fn save(path: &Path, fingerprint: u64, ids: &[u32], runner: &mut dyn Runner, seq: u32) -> Result<()> {
    if runner.held(seq) != ids.len() {
        let (held, found) = (runner.held(seq), ids.len());
        return Err(Error::Request(format!("{}: expected ids of {held} positions, found {found}", path.display())));
    }
    ours(path)?;
    let mut out = Out { file: Replacing::create(path)?, sum: Sum::new() };
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend(fingerprint.to_le_bytes());
    head.extend(sum_of(runner.state_layout().as_bytes()).to_le_bytes());
    head.extend((ids.len() as u64).to_le_bytes());
    out.write_all(&head).and_then(|()| out.write_all(bytemuck::cast_slice(ids))).map_err(|e| Error::io(path, e))?;
    runner.save(seq, &mut out)?;
    let sum = out.sum.end();
    out.file.write(&sum.to_le_bytes())?;
    out.file.finish()
}

/// Makes sequence `seq` of a runner what a file holds, and gives its ids. No step may be in flight.
///
/// # Errors
/// A file that is no such file, of another version, damaged, of another model or another kind of runner, or of more positions than
/// the context has: the sequence is as it was. Sizes that do not fit: it holds nothing.
pub fn load(path: &Path, fingerprint: u64, runner: &mut dyn Runner, seq: u32) -> Result<Vec<u32>> {
    let io = |e: std::io::Error| Error::io(path, e);
    let bad = |code: &'static str, what: String| Error::file(path, code, what);
    let meta = std::fs::metadata(path).map_err(io)?;
    if !meta.is_file() {
        return Err(bad("no_state", "expected a saved sequence, found no regular file".into()));
    }
    let len = meta.len();
    let open = || File::open(path).map(|file| BufReader::with_capacity(1 << 20, file)).map_err(io);
    let mut file = open()?;
    let mut head = Vec::with_capacity(HEAD);
    file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(io)?;
    if !head.starts_with(MAGIC) {
        return Err(bad("no_state", "expected a saved sequence, found another kind of file".into()));
    }
    let short = || bad("truncated_state", format!("expected {} bytes or more, found {len}", HEAD + 8));
    let Ok(head) = <[u8; HEAD]>::try_from(head) else { return Err(short()) };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let version = u32::from_le_bytes(std::array::from_fn(|i| head[8 + i]));
    if version != VERSION {
        return Err(bad("state_version", format!("expected version {VERSION} of a saved sequence, found {version}")));
    }
    if word(12) != fingerprint {
        let what =
            format!("expected the model's fingerprint {fingerprint:016x}, found {:016x}, another model's", word(12));
        return Err(bad("state_model", what));
    }
    let layout = sum_of(runner.state_layout().as_bytes());
    if word(20) != layout {
        let device = runner.device();
        let what = format!(
            "expected a sequence saved on such a device and with these cache types ({device}), found another's"
        );
        return Err(bad("state_layout", what));
    }
    let (count, n_ctx) = (word(28), runner.n_ctx() as u64);
    if count > n_ctx {
        return Err(bad(
            "state_length",
            format!("expected at most the context's {n_ctx} positions (-c), found {count}"),
        ));
    }
    let body = len.checked_sub(HEAD as u64 + 4 * count + 8).ok_or_else(short)?;
    let found = summed(&mut open()?, len - 8).map_err(io)?;
    let mut ids = vec![0u32; count as usize];
    file.read_exact(bytemuck::cast_slice_mut(&mut ids)).map_err(io)?;
    let mut end = [0; 8];
    let mut tail = open()?;
    tail.seek_relative((len - 8) as i64).and_then(|()| tail.read_exact(&mut end)).map_err(io)?;
    if u64::from_le_bytes(end) != found {
        let what =
            format!("expected the checksum {found:016x}, found {:016x}: damaged or cut short", u64::from_le_bytes(end));
        return Err(bad("damaged_state", what));
    }
    if let Some(id) = ids.iter().find(|id| **id as usize >= runner.n_vocab()) {
        return Err(bad("state_ids", format!("expected ids below {}, found {id}", runner.n_vocab())));
    }
    let mut body = file.take(body);
    runner.restore(seq, &mut body)?;
    if body.limit() > 0 || runner.held(seq) != ids.len() {
        let held = runner.held(seq);
        runner.forget(seq, 0);
        let what = format!("expected {count} positions and no more bytes, found {held} and {} bytes", body.limit());
        return Err(bad("state_length", what));
    }
    Ok(ids)
}

/// Sum of the first `len` bytes.
fn summed(file: &mut dyn Read, len: u64) -> std::io::Result<u64> {
    let (mut sum, mut left, mut piece) = (Sum::new(), len, vec![0; 1 << 20]);
    while left > 0 {
        let part = &mut piece[..left.min(1 << 20) as usize];
        file.read_exact(part)?;
        sum.add(part);
        left -= part.len() as u64;
    }
    Ok(sum.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_does_not_depend_on_how_bytes_come_and_changes_with_each() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..100 {
            let mut parts = Sum::new();
            parts.add(&bytes[..cut]);
            parts.add(&bytes[cut..cut + (100 - cut) / 2]);
            parts.add(&bytes[cut + (100 - cut) / 2..]);
            assert_eq!(parts.end(), sum_of(&bytes), "{cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1 << (cut % 8);
            assert!(sum_of(&flipped) != sum_of(&bytes) && sum_of(&bytes[..cut]) != sum_of(&bytes), "{cut}");
        }
    }
}
