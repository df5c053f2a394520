//! Sequences in files: what a runner keeps of one, with its ids, for the same model later.
//!
//! Magic, version, fingerprint of the model, how the runner's bytes lie, ids, how long the beginnings are that are kept of them, those
//! bytes of the whole and of each beginning, and a checksum of it all. A file is read through and found whole before a runner sees any
//! of it, and it stands at its place only when it is whole.

mod sum;

use pumex_gguf::file::Replacing;
use pumex_gguf::{Error, Gguf, Result};
use pumex_step::{Runner, MEDIA_IDS};
use std::fs::File;
use std::io::{BufReader, Read, Take, Write};
use std::path::{Path, PathBuf};
use sum::{sum_of, sum_of_file, Sum};

const MAGIC: &[u8; 8] = b"PUMEXSEQ";
const VERSION: u32 = 2;
/// Bytes before the ids: magic, version, fingerprint, hash of the layout, counts of ids and of beginnings.
const HEAD: usize = 44;
/// Most beginnings of a file.
pub const MOST_BEGINNINGS: usize = 4;

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
struct StateWriter {
    file: Replacing,
    sum: Sum,
    /// Bytes that it may have yet; none once it had more.
    room: Option<u64>,
    /// What the file system said, which runners pass on as an error of theirs.
    failed: Option<std::io::Error>,
}

impl Write for StateWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.room = self.room.and_then(|room| room.checked_sub(bytes.len() as u64));
        if self.room.is_none() {
            return Err(std::io::Error::other("a longer file than there may be"));
        }
        if let Err(error) = self.file.write(bytes) {
            let what = error.to_string();
            if let Error::Io { source, .. } = error {
                self.failed = Some(source);
            }
            return Err(std::io::Error::other(what));
        }
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
    let start = starts(path).map_err(|e| Error::io(path, e))?;
    if start.is_empty() || start == MAGIC {
        return Ok(());
    }
    other("another kind of file")
}

/// A sequence of a runner, to be saved.
#[derive(Clone, Copy, Debug)]
pub struct SequenceToSave<'a> {
    /// What its positions hold.
    pub ids: &'a [u32],
    /// The sequence.
    pub seq: u32,
    /// Sequences that hold beginnings of it, for models that cannot go back there. The first [`MOST_BEGINNINGS`] are saved, too.
    pub beginnings: &'a [u32],
}

/// Writes sequence `seq` of a runner, whose positions hold `ids`, to a file. No step may be in flight.
///
/// # Errors
/// Another number of ids than of positions, another kind of file at its place, a full disk, what the runner says.
pub fn save(path: &Path, fingerprint: u64, ids: &[u32], runner: &mut dyn Runner, seq: u32) -> Result<()> {
    save_all(path, fingerprint, SequenceToSave { ids, seq, beginnings: &[] }, u64::MAX, runner).map(drop)
}

/// Writes a sequence as [`save`] does, with beginnings of it, in a file of at most `most` bytes. Whether it was not longer: else there is
/// what there was.
///
/// # Errors
/// As [`save`].
pub fn save_all(
    path: &Path,
    fingerprint: u64,
    held: SequenceToSave<'_>,
    most: u64,
    runner: &mut dyn Runner,
) -> Result<bool> {
    let SequenceToSave { ids, seq, beginnings } = held;
    if runner.sequence_len(seq) != ids.len() {
        let (held, found) = (runner.sequence_len(seq), ids.len());
        return Err(Error::Request(format!("{}: expected ids of {held} positions, found {found}", path.display())));
    }
    ours(path)?;
    let beginnings = &beginnings[..beginnings.len().min(MOST_BEGINNINGS)];
    let mut out =
        StateWriter { file: Replacing::create(path)?, sum: Sum::new(), room: most.checked_sub(8), failed: None };
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend(fingerprint.to_le_bytes());
    head.extend(sum_of(runner.state_layout().as_bytes()).to_le_bytes());
    head.extend((ids.len() as u64).to_le_bytes());
    head.extend((beginnings.len() as u64).to_le_bytes());
    let lengths: Vec<u32> = beginnings.iter().map(|seq| runner.sequence_len(*seq) as u32).collect();
    let mut write = || -> Result<()> {
        let parts = [&head[..], bytemuck::cast_slice(ids), bytemuck::cast_slice(&lengths)];
        parts.iter().try_for_each(|part| out.write_all(part)).map_err(|e| Error::io(path, e))?;
        runner.save(seq, &mut out)?;
        beginnings.iter().try_for_each(|seq| runner.save_beside(*seq, &mut out))
    };
    let written = write();
    if out.room.is_none() {
        return Ok(false);
    }
    if let Some(source) = out.failed.take() {
        return Err(Error::io(path, source));
    }
    written?;
    let sum = out.sum.end();
    out.file.write(&sum.to_le_bytes())?;
    out.file.finish()?;
    Ok(true)
}

/// Bytes of the saved sequences in a folder but for that at `path`, which another one is to replace.
///
/// # Errors
/// A folder that cannot be read.
pub fn bytes_of_others(path: &Path) -> Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut used = 0u64;
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
        let other = entry.map_err(|e| Error::io(folder, e))?.path();
        let is_ours = other != path && other.is_file() && starts(&other).is_ok_and(|start| start == MAGIC);
        // One that goes meanwhile has no bytes.
        used = used.saturating_add(std::fs::metadata(&other).map_or(0, |meta| if is_ours { meta.len() } else { 0 }));
    }
    Ok(used)
}

/// The first bytes of a file, as many as magic has.
fn starts(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// A file that was found whole, of the model and the runner that it is for.
#[derive(Debug)]
pub struct SavedSequence {
    path: PathBuf,
    ids: Vec<u32>,
    /// Positions of its beginnings.
    beginnings: Vec<u32>,
    body: Take<BufReader<File>>,
}

/// Whether there is a file that says it is a saved sequence of a model of that fingerprint.
pub fn has_fingerprint(path: &Path, fingerprint: u64) -> bool {
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(MAGIC) && head[12..] == fingerprint.to_le_bytes()
}

/// Reads a file through, and looks whether a runner can have what it holds. No step may be in flight.
///
/// # Errors
/// A file that is no such file, of another version, damaged, of another model or another kind of runner, or of more positions than
/// the context has.
pub fn open(path: &Path, fingerprint: u64, runner: &dyn Runner) -> Result<SavedSequence> {
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
    let parts = word(36);
    if parts > MOST_BEGINNINGS as u64 {
        return Err(bad("state_length", format!("expected at most {MOST_BEGINNINGS} beginnings, found {parts}")));
    }
    let body = len.checked_sub(HEAD as u64 + 4 * (count + parts) + 8).ok_or_else(short)?;
    let found = sum_of_file(&mut open()?, len - 8).map_err(io)?;
    // The file is as long as that.
    let mut words = |n: u64| {
        let mut words = pumex_gguf::error::try_filled_vec(0u32, n as usize, &format!("{}: ids", path.display()))?;
        file.read_exact(bytemuck::cast_slice_mut(&mut words)).map_err(io).map(|()| words)
    };
    let (ids, beginnings) = (words(count)?, words(parts)?);
    let mut end = [0; 8];
    let mut tail = open()?;
    tail.seek_relative((len - 8) as i64).and_then(|()| tail.read_exact(&mut end)).map_err(io)?;
    if u64::from_le_bytes(end) != found {
        let what =
            format!("expected the checksum {found:016x}, found {:016x}: damaged or cut short", u64::from_le_bytes(end));
        return Err(bad("damaged_state", what));
    }
    let is_none = |id: &u32| *id as usize >= runner.n_vocab() && *id < MEDIA_IDS;
    if let Some(id) = ids.iter().copied().find(is_none) {
        return Err(bad("state_ids", format!("expected ids below {}, found {id}", runner.n_vocab())));
    }
    if let Some(length) = beginnings.iter().find(|length| **length == 0 || u64::from(**length) > count) {
        return Err(bad("state_length", format!("expected beginnings of 1 to {count} positions, found {length}")));
    }
    Ok(SavedSequence { path: path.to_path_buf(), ids, beginnings, body: file.take(body) })
}

impl SavedSequence {
    /// Its ids.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Makes sequence `seq` of the runner what the file holds, and as many of these others its beginnings as it has, in their order;
    /// gives ids and how many positions each of the beginnings has. No step may be in flight.
    ///
    /// # Errors
    /// Sizes that do not fit, too few free blocks: none of them holds anything.
    pub fn restore(mut self, runner: &mut dyn Runner, seq: u32, others: &[u32]) -> Result<(Vec<u32>, Vec<usize>)> {
        let lengths: Vec<usize> = self.beginnings.iter().zip(others).map(|(length, _)| *length as usize).collect();
        let restored = self.put(runner, seq, others);
        if restored.is_err() {
            for seq in others.iter().chain([&seq]) {
                runner.forget(*seq, 0);
            }
        }
        restored.map(|()| (self.ids, lengths))
    }

    fn put(&mut self, runner: &mut dyn Runner, seq: u32, others: &[u32]) -> Result<()> {
        let wrong = |expected: usize, found: usize, left: u64| {
            let what = format!("expected {expected} positions and no more bytes, found {found} and {left} bytes");
            Err(Error::file(&self.path, "state_length", what))
        };
        runner.restore(seq, &mut self.body)?;
        let all = runner.sequence_len(seq);
        if all != self.ids.len() {
            return wrong(self.ids.len(), all, self.body.limit());
        }
        for (length, other) in self.beginnings.iter().zip(others) {
            runner.restore_beside(seq, *other, &mut self.body)?;
            if runner.sequence_len(*other) != *length as usize {
                return wrong(*length as usize, runner.sequence_len(*other), self.body.limit());
            }
        }
        match self.body.limit() {
            left if left > 0 && others.len() >= self.beginnings.len() => wrong(all, all, left),
            _ => Ok(()),
        }
    }

    /// How many beginnings it has.
    pub fn beginnings(&self) -> usize {
        self.beginnings.len()
    }
}

/// Makes sequence `seq` of a runner what a file holds, without beginnings of it, and gives its ids. No step may be in flight.
///
/// # Errors
/// As [`open`]: the sequence is as it was. As [`SavedSequence::restore`]: it holds nothing.
pub fn load(path: &Path, fingerprint: u64, runner: &mut dyn Runner, seq: u32) -> Result<Vec<u32>> {
    open(path, fingerprint, runner)?.restore(runner, seq, &[]).map(|(ids, _)| ids)
}
