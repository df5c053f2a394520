//! Pictures and sounds on the command line, and the projector's file that they need.

use std::path::{Path, PathBuf};
#[cfg(feature = "serve")]
use std::sync::Arc;

use pumex_dialogue::projector::{shape_of, MediaOptions, MediumFile, Projector, TextSide};
use pumex_engine::conversation::Feed;
use pumex_engine::DeviceChoice;
use pumex_gguf::{Error, Gguf, Result};
use pumex_model as model;
#[cfg(feature = "serve")]
use pumex_server::OpenProjector;
use pumex_text::Tokenizer;

use super::chat::ChatMedia;
use super::options::{EngineArgs, ModelArgs};
use super::{fetch, files, output};

/// The most bytes that a medium's file may have.
const MOST_BYTES: u64 = 512 << 20;

/// Flags of the projector.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ProjectorArgs {
    /// Projector of pictures and sounds (-mm) [default: mmproj*.gguf beside the model]
    #[arg(long, value_name = "FILE", env = "LLAMA_ARG_MMPROJ")]
    pub mmproj: Option<PathBuf>,
    /// URL of the projector's file (-mmu), downloaded once
    #[arg(long, value_name = "URL", conflicts_with = "mmproj", env = "LLAMA_ARG_MMPROJ_URL")]
    pub mmproj_url: Option<String>,
    /// Look for no projector beside the model
    #[arg(long, overrides_with = "mmproj_auto", env = "LLAMA_ARG_NO_MMPROJ")]
    pub no_mmproj: bool,
    #[arg(long, hide = true, overrides_with = "no_mmproj")]
    mmproj_auto: bool,
    /// Encode media on the CPU
    #[arg(long, overrides_with = "mmproj_offload")]
    no_mmproj_offload: bool,
    #[arg(long, hide = true, overrides_with = "no_mmproj_offload", env = "LLAMA_ARG_MMPROJ_OFFLOAD")]
    mmproj_offload: bool,
    /// At least so many tokens for a picture, where its size is not fixed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env = "LLAMA_ARG_IMAGE_MIN_TOKENS")]
    image_min_tokens: Option<u32>,
    /// At most so many tokens for a picture, where its size is not fixed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env = "LLAMA_ARG_IMAGE_MAX_TOKENS")]
    image_max_tokens: Option<u32>,
}

/// Flags of the projector and of media.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct MediaArgs {
    #[command(flatten)]
    pub projector: ProjectorArgs,
    #[command(flatten)]
    media: MediaFiles,
}

/// Paths of pictures and sounds, each with whether it is a picture, in the order of the command line.
#[derive(Clone, Debug, Default)]
struct MediaFiles(Vec<(PathBuf, bool)>);

/// Flags of media.
#[derive(clap::Args)]
struct MediaFlags {
    /// Picture (PNG, JPEG, WebP, GIF, BMP) for the prompt, where <__media__> stands or in front; may be repeated
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    image: Vec<PathBuf>,
    /// Sound (WAV, MP3, FLAC, Ogg; .pcm: samples as f32 at the projector's rate) for the prompt, likewise
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    audio: Vec<PathBuf>,
    /// Refused: no projector here takes videos
    #[arg(long, value_name = "FILE", hide = true, value_parser = refuse_video)]
    video: Option<String>,
}

fn refuse_video(_: &str) -> std::result::Result<String, String> {
    Err("video input is not supported: --image FILE takes a frame of it, --audio FILE its sound".into())
}

impl clap::Args for MediaFiles {
    fn augment_args(command: clap::Command) -> clap::Command {
        MediaFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        MediaFlags::augment_args_for_update(command)
    }
}

impl clap::FromArgMatches for MediaFiles {
    fn from_arg_matches(given: &clap::ArgMatches) -> std::result::Result<MediaFiles, clap::Error> {
        let of = |name: &str, picture: bool| {
            let paths = given.get_many::<PathBuf>(name).into_iter().flatten().cloned();
            let places = given.indices_of(name).into_iter().flatten();
            places.zip(paths).map(|(place, path)| (place, (path, picture))).collect::<Vec<_>>()
        };
        let mut files = [of("image", true), of("audio", false)].concat();
        files.sort_by_key(|(place, _)| *place);
        Ok(MediaFiles(files.into_iter().map(|(_, file)| file).collect()))
    }

    fn update_from_arg_matches(&mut self, given: &clap::ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = MediaFiles::from_arg_matches(given)?;
        Ok(())
    }
}

impl ProjectorArgs {
    /// What is asked of preprocessing.
    ///
    /// # Errors
    /// A least that is above the most.
    pub fn options(&self) -> Result<MediaOptions> {
        if let (Some(least), Some(most)) = (self.image_min_tokens, self.image_max_tokens) {
            if least > most {
                let what = format!("--image-min-tokens: expected at most --image-max-tokens {most}, found {least}");
                return Err(Error::Usage(what));
            }
        }
        let n = |n: Option<u32>| n.map(|n| n as usize);
        Ok(MediaOptions { image_min_tokens: n(self.image_min_tokens), image_max_tokens: n(self.image_max_tokens) })
    }

    /// The projector's file: the one that is named, or one that lies beside the model.
    ///
    /// # Errors
    /// Several that lie there, of which none has the model's name; all that a download may fail of.
    pub fn path(&self, args: &ModelArgs, model: Option<&Path>) -> Result<Option<PathBuf>> {
        if let Some(path) = &self.mmproj {
            files::reads(path);
            return Ok(Some(path.clone()));
        }
        if let Some(url) = &self.mmproj_url {
            return fetch::url(args, url);
        }
        if self.no_mmproj {
            return Ok(None);
        }
        match (fetch::projector(args)?, model) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(model)) => find_projector(model),
            (None, None) => Ok(None),
        }
    }

    /// The projector, if there is one.
    ///
    /// # Errors
    /// As [`ProjectorArgs::path`]; a file that is no projector's or one that is not supported.
    pub fn open(&self, args: &ModelArgs, model: Option<&Path>, engine: &EngineArgs) -> Result<Option<Projector>> {
        let (options, path) = (self.options()?, self.path(args, model)?);
        let mut engine = engine.options(None);
        if self.no_mmproj_offload {
            engine.device = DeviceChoice::Cpu;
        }
        path.map(|path| Projector::open(&path, args.access(), options, &engine)).transpose()
    }

    /// What opens the projector of a model that is about to be served. One that lies beside it and cannot be used is no reason not to
    /// serve.
    #[cfg(feature = "serve")]
    pub fn opener(&self, args: &ModelArgs, engine: &EngineArgs) -> OpenProjector {
        let (own, args, engine) = (self.clone(), args.clone(), engine.clone());
        Arc::new(move |gguf| own.usable(&args, gguf, &engine))
    }

    fn usable(&self, args: &ModelArgs, gguf: &Gguf, engine: &EngineArgs) -> Result<Option<Projector>> {
        let named = self.mmproj.is_some() || self.mmproj_url.is_some();
        match self.open(args, Some(gguf.path()), engine) {
            Err(error) if !named => {
                output::say(format_args!("note: no pictures and no sounds: {error}\n"));
                Ok(None)
            }
            Ok(Some(_)) if !named && model::plan(gguf)?.vector_limits().is_none() => Ok(None),
            other => other,
        }
    }

    /// The projector that media of a prompt need.
    ///
    /// # Errors
    /// As [`ProjectorArgs::open`]; none that is given or lies beside the model.
    pub fn require_projector(&self, args: &ModelArgs, gguf: &Gguf, engine: &EngineArgs) -> Result<Projector> {
        self.open(args, Some(gguf.path()), engine)?.ok_or_else(|| {
            let what =
                "--image, --audio: expected a projector (--mmproj FILE, or mmproj*.gguf beside the model), found none";
            Error::Usage(what.into())
        })
    }
}

/// The projector's file in a model's folder.
///
/// # Errors
/// None so far: a folder that cannot be read has no such file.
pub fn find_projector(model: &Path) -> Result<Option<PathBuf>> {
    let folder = model.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(None) };
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_one = |path: &PathBuf| name(path).contains("mmproj") && name(path).ends_with(".gguf") && *path != *model;
    let mut found: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).filter(is_one).collect();
    found.sort();
    if found.len() < 2 {
        return Ok(found.pop());
    }
    // Names such as `mmproj-model-f16.gguf` beside `model-Q4_K_M.gguf`: the longest common part of the model's name counts.
    let stem = name(model);
    let words: Vec<&str> = stem.trim_end_matches(".gguf").split(['-', '_', '.']).collect();
    let score = |path: &PathBuf| words.iter().take_while(|w| name(path).contains(**w)).count();
    let best = found.iter().map(score).max().unwrap_or(0);
    let mut best: Vec<&PathBuf> = found.iter().filter(|p| score(p) == best).collect();
    if best.len() > 1 && best.iter().any(|p| name(p).contains("f16")) {
        best.retain(|p| name(p).contains("f16") && !name(p).contains("bf16"));
    }
    match best[..] {
        [one] => Ok(Some(one.clone())),
        _ => {
            let list: Vec<String> = found.iter().map(|p| name(p)).collect();
            output::say(format_args!(
                "note: several projectors lie beside the model ({}); --mmproj FILE chooses one\n",
                list.join(", ")
            ));
            Ok(None)
        }
    }
}

/// A projector beside a model, and what it has to know of that.
pub struct ModelProjector {
    projector: Projector,
    n_embd: usize,
    m_rope: bool,
}

impl ModelProjector {
    fn of(projector: Projector, gguf: &Gguf) -> Result<ModelProjector> {
        let (n_embd, m_rope) = shape_of(gguf, &model::plan(gguf)?)?;
        Ok(ModelProjector { projector, n_embd, m_rope })
    }

    /// Rows that a step must have room for, so that any picture fits.
    ///
    /// # Errors
    /// Metadata of the projector that cannot be.
    pub fn widest(&self) -> Result<u32> {
        Ok(self.projector.widest_group(self.n_embd)? as u32)
    }

    /// Bytes of a device's memory that the model is to leave to the encoder.
    pub fn reserved_bytes(&self) -> u64 {
        self.projector.reserved_bytes()
    }

    /// A prompt with media in it.
    ///
    /// # Errors
    /// As [`Projector::feed`].
    pub fn feed(&self, text: &str, media: &[MediumFile], tokenizer: &Tokenizer) -> Result<Feed> {
        let side = TextSide { tokenizer, n_embd: self.n_embd, m_rope: self.m_rope };
        self.projector.feed(text, media, &side)
    }

    /// For a conversation whose first message has these media.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large.
    pub fn talk(self, media: &MediaArgs) -> Result<ChatMedia> {
        Ok(ChatMedia::new(self.projector, (self.n_embd, self.m_rope), media.files()?))
    }
}

impl MediaArgs {
    /// The projector, where media are given or a conversation may show some later. One that lies beside the model and cannot be used is no
    /// reason not to talk.
    ///
    /// # Errors
    /// Media without a projector; a projector that is named and cannot be used.
    pub fn open_projector(
        &self,
        args: &ModelArgs,
        gguf: &Gguf,
        (engine, talks): (&EngineArgs, bool),
    ) -> Result<Option<ModelProjector>> {
        if !self.is_empty() {
            return ModelProjector::of(self.projector.require_projector(args, gguf, engine)?, gguf).map(Some);
        }
        if !talks {
            return Ok(None);
        }
        self.projector.usable(args, gguf, engine)?.map(|projector| ModelProjector::of(projector, gguf)).transpose()
    }

    /// Whether there are media.
    pub fn is_empty(&self) -> bool {
        self.media.0.is_empty()
    }

    /// All media, in the order of the command line.
    ///
    /// # Errors
    /// A file that cannot be read, or is too large.
    pub fn files(&self) -> Result<Vec<MediumFile>> {
        self.media.0.iter().map(|(path, picture)| read(path, *picture)).collect()
    }
}

/// A medium's file.
///
/// # Errors
/// A file that cannot be read, or is too large.
pub fn read(path: &Path, picture: bool) -> Result<MediumFile> {
    files::reads(path);
    let size = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    if size > MOST_BYTES {
        let what = format!("{}: expected at most {MOST_BYTES} bytes of a medium, found {size}", path.display());
        return Err(Error::Request(what));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    let bare = !picture && path.extension().is_some_and(|end| end == "pcm" || end == "f32");
    Ok(MediumFile { picture, bytes: bytes.into(), bare, max_tokens: None })
}
