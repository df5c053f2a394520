//! What a command reads and what it writes: an output is never one of the inputs.
//!
//! [`take`] looks through the command line for both; [`reads`] adds what a command finds elsewhere, such as a downloaded model. Every
//! output is opened by [`create`], or looked at by [`check`] where the library opens it.

use std::any::TypeId;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use pumex_gguf::file::Replacing;
use pumex_gguf::{Error, Result};

use super::{adapters, output};

/// Arguments that name what is written, of every command.
const WRITTEN: &[(&str, &[&str])] = &[
    ("run", &["prompt_cache"]),
    ("serve", &["slot_save_path", "log_steps"]),
    ("embed", &["out"]),
    ("logits", &["out"]),
    ("perplexity", &["kl_divergence_base"]),
    ("bench-serve", &["picture"]),
    ("profile", &["html"]),
    ("imatrix", &["out"]),
    // Of what stands there, the input is known when it is opened.
    ("quantize", &["positional"]),
    ("split", &["output"]),
    ("merge", &["output"]),
    ("convert", &["output"]),
    ("merge-lora", &["output"]),
    ("man", &["out"]),
];

/// Arguments that name what is read. A new one that names a file goes here or to [`WRITTEN`].
const ONLY_READ: &[&str] = &[
    "api_key_file",
    "base",
    "chat_template_file",
    "control_vector",
    "control_vector_scaled",
    "dir",
    "profile",
    "file",
    "grammar_file",
    "hf_file",
    "imatrix",
    "audio",
    "image",
    "input",
    "json_schema_file",
    "lora",
    "lora_scaled",
    "media_path",
    "messages",
    "mmproj",
    "model",
    "model_draft",
    "name",
    "models_dir",
    "models_preset",
    "path",
    "prompts",
    "show_statistics",
    "ssl_cert_file",
    "ssl_key_file",
    "system_prompt_file",
    "tensor_type_file",
    "tools",
    "video",
];

/// What tells files apart, however they are named.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

/// Inputs with their names.
static READ: Mutex<Vec<(Identity, PathBuf)>> = Mutex::new(Vec::new());

#[cfg(unix)]
fn identity(_: &Path, meta: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Option<Identity> {
    path.canonicalize().ok()
}

/// What the process has open, such as stdin.
#[cfg(unix)]
fn stream_metadata(stream: impl std::os::fd::AsFd) -> Option<Metadata> {
    std::fs::File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

/// Whether an argument's values are files.
fn names_files(arg: &Arg) -> bool {
    let named = arg.get_value_names().into_iter().flatten().any(|name| name.contains("FILE"));
    named || arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// Whether an argument of a command names what is written.
pub fn writes(command: &str, arg: &Arg) -> bool {
    WRITTEN.iter().any(|(name, ids)| *name == command && ids.contains(&arg.get_id().as_str()))
}

/// Finds, in tests, an argument that names a file of which nobody has said whether it is read or written.
pub fn assert_known(command: &clap::Command) {
    for arg in command.get_arguments().filter(|arg| names_files(arg)) {
        let known = ONLY_READ.contains(&arg.get_id().as_str()) || writes(command.get_name(), arg);
        debug_assert!(known, "{}: {}: is it read or written?", command.get_name(), arg.get_id());
    }
}

/// The files of one value: itself, or those of a list or with a scale.
fn values(text: &str) -> Vec<PathBuf> {
    let fields = adapters::fields(text);
    let bare = fields.iter().filter_map(|field| Some(field.rsplit_once(':')?.0));
    std::iter::once(text).chain(fields.iter().map(String::as_str)).chain(bare).map(PathBuf::from).collect()
}

/// Paths of all parts of a split set that the path is one of.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parted = || {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (stem, _) = rest.rsplit_once('-').filter(|(_, no)| no.len() == 5 && no.parse::<u16>().is_ok())?;
        let all = 1..=count.parse::<u16>().ok().filter(|_| count.len() == 5)?;
        Some(all.map(|no| path.with_file_name(format!("{stem}-{no:05}-of-{count}.gguf"))).collect())
    };
    parted().unwrap_or_else(|| vec![path.to_path_buf()])
}

/// Takes the inputs of a command line, and looks whether its outputs are others.
///
/// # Errors
/// An output that is an input.
pub fn take(command: &clap::Command, given: &ArgMatches) -> Result<()> {
    #[cfg(unix)]
    if let Some(meta) = stream_metadata(std::io::stdin()).filter(Metadata::is_file) {
        add(Path::new("stdin"), &meta);
    }
    let args = || command.get_arguments().filter(|arg| names_files(arg));
    assert_known(command);
    let of = |arg: &Arg| -> Vec<PathBuf> {
        let raw = given.get_raw(arg.get_id().as_str()).into_iter().flatten();
        raw.flat_map(|value| value.to_str().map_or_else(|| vec![PathBuf::from(value)], values)).collect()
    };
    args().filter(|arg| !writes(command.get_name(), arg)).flat_map(of).for_each(|path| reads(&path));
    // Early, before work is done in vain; of names that are made or may go unused, those that open them see more.
    let told = |arg: &&Arg| {
        arg.get_long().is_some() && given.value_source(arg.get_id().as_str()) != Some(ValueSource::DefaultValue)
    };
    let written = args().filter(|arg| writes(command.get_name(), arg)).filter(told).flat_map(of);
    written.into_iter().try_for_each(|path| check(&path))
}

/// Counts a file as read, with the other parts of its set. What is there no more, or is no file that could be lost, does not count.
pub fn reads(path: &Path) {
    for part in parts(path) {
        if let Some(meta) = std::fs::metadata(&part).ok().filter(Metadata::is_file) {
            add(&part, &meta);
        }
    }
}

fn add(path: &Path, meta: &Metadata) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = identity(path, meta).filter(|new| !read.iter().any(|(known, _)| known == new)) {
        read.push((identity, path.to_path_buf()));
    }
}

/// Looks whether what is written to is none of the inputs.
///
/// # Errors
/// It is one.
pub fn check(path: &Path) -> Result<()> {
    let Some(identity) = std::fs::metadata(path).ok().and_then(|meta| identity(path, &meta)) else { return Ok(()) };
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    match read.iter().find(|(known, _)| *known == identity) {
        Some((_, input)) => {
            let (path, input) = (path.display(), input.display());
            Err(Error::Usage(format!("{path}: expected an output other than the inputs, found {input}, which is read")))
        }
        None => Ok(()),
    }
}

/// Starts an output.
///
/// # Errors
/// As for [`check`] and [`Replacing::create`].
pub fn create(path: &Path) -> Result<Replacing> {
    check(path)?;
    Replacing::create(path)
}

/// Tells what was written: on stdout, unless the output itself went there.
///
/// # Errors
/// As for [`output::text`].
pub fn report_written(path: &Path, text: &str) -> Result<()> {
    #[cfg(unix)]
    if let (Some(out), Ok(written)) = (stream_metadata(std::io::stdout()), std::fs::metadata(path)) {
        if identity(path, &out) == identity(path, &written) {
            output::say(format_args!("{text}"));
            return Ok(());
        }
    }
    output::text(text)
}
