//! A projector's file beside a text model (`mmproj-*.gguf`): pictures and sounds become rows that stand in a prompt.

mod profile;
mod source;
mod summary;
mod together;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pumex_media::interpret::Interpreter;
use pumex_media::{encode, Clip, Modality, Picture, PictureLimits, PromptPiece, SoundLimits, TextModel};

pub use profile::EncoderProfile;
pub use pumex_media::PreprocessOptions as MediaOptions;
pub use source::ProjectorSource;
pub use summary::{EncoderSummary, MediumTokens};
use together::WaitingMedium;

use pumex_engine::conversation::Feed;
use pumex_engine::cpu::EncoderProducts;
use pumex_engine::{DeviceChoice, Options, Tower};
use pumex_gguf::{Error, FileAccess, Gguf, Result};
use pumex_plan::Plan;
use pumex_step::{Medium, Positions, Stream};
use pumex_text::Tokenizer;

pub use pumex_engine::conversation::MARK;

/// Bytes of rows that are kept of media encoded before.
const MOST_KEPT: usize = 256 << 20;

/// A picture or a sound as it came.
#[derive(Clone, Debug)]
pub struct MediumFile {
    /// Whether it is a picture; else a sound.
    pub picture: bool,
    /// A file's bytes.
    pub bytes: Arc<[u8]>,
    /// Whether these are no file but samples alone: f32, little-endian, of one channel, at the projector's rate.
    pub bare: bool,
    /// At most so many tokens, of a picture whose size is not fixed.
    pub max_tokens: Option<usize>,
}

/// Rows of an encoder, `[rows, width]`, and what they are.
struct EncodedMedium {
    key: u64,
    rows: Arc<[f32]>,
}

/// What runs graphs.
enum Encoder {
    /// The CPU.
    Cpu(Interpreter<Arc<ProjectorSource>>),
    /// A Vulkan device.
    Vulkan(Box<Tower<Arc<ProjectorSource>>>, String),
}

impl Encoder {
    /// On the device that the options mean.
    fn new(source: &Arc<ProjectorSource>, engine: &Options) -> Result<Encoder> {
        if let Some(device) = pumex_engine::device(engine)? {
            let name = device.caps().name.clone();
            return Ok(Encoder::Vulkan(Box::new(Tower::new(&device, source.clone())?), name));
        }
        Ok(Encoder::Cpu(match engine.device {
            DeviceChoice::Reference => Interpreter::new(source.clone()),
            _ => Interpreter::with_products(source.clone(), Box::new(EncoderProducts::new(&engine.cpu))),
        }))
    }
}

/// An encoder and what stands around its rows.
pub struct Projector {
    source: Arc<ProjectorSource>,
    engine: Options,
    /// Made for the first medium; one after the other, as all of them share its threads or its device.
    encoder: Mutex<Option<Encoder>>,
    clips: Vec<Clip>,
    options: MediaOptions,
    kept: Mutex<VecDeque<EncodedMedium>>,
    waiting: Mutex<VecDeque<WaitingMedium>>,
    /// Of the encoder, so far.
    runs: AtomicU64,
}

/// What the text model's side of a prompt needs.
pub struct TextSide<'a> {
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Width of its embeddings (`n_embd`).
    pub n_embd: usize,
    /// Whether its rotations have several streams of positions.
    pub m_rope: bool,
}

/// Width of a model's embeddings, and whether its rotations have several streams of positions.
///
/// # Errors
/// A model that takes no vectors for rows.
pub fn shape_of(gguf: &Gguf, plan: &Plan) -> Result<(usize, bool)> {
    let limits = plan.vector_limits().ok_or_else(|| {
        let path = gguf.path().display();
        Error::Request(format!("{path}: this model takes no pictures or sounds, its rows are ids alone"))
    })?;
    let key = format!("{}.embedding_length", gguf.meta().arch()?);
    Ok((gguf.meta().u32(&key)? as usize, limits.streams))
}

impl TextSide<'_> {
    /// The first token that is written as this text.
    fn first_written(&self, text: &str) -> Option<u32> {
        let written = |id: &u32| match self.tokenizer.piece(*id) {
            [] => self.tokenizer.token_text(*id) == text.as_bytes(),
            piece => piece == text.as_bytes(),
        };
        (0..self.tokenizer.n_vocab() as u32).find(written)
    }

    fn with<R>(&self, use_it: impl FnOnce(&TextModel<'_>) -> R) -> R {
        let has_token = |text: &str| self.tokenizer.id_of(text).is_some();
        use_it(&TextModel { n_embd: self.n_embd, m_rope: self.m_rope, has_token: &has_token })
    }
}

/// An error of the media crate, as one of the file or of the request.
fn file_error(path: &Path, error: pumex_media::Error) -> Error {
    use pumex_media::Error as E;
    match error {
        E::Key(what) => Error::file(path, "bad_hparam", what),
        E::MissingTensor(name) => {
            Error::file(path, "missing_tensor", format!("{name}: expected this tensor, found none"))
        }
        E::Shape(what) => Error::file(path, "bad_shape", what),
        E::Unsupported(what) => Error::file(path, "unsupported_projector", what),
        E::Medium(what) => Error::Request(what),
    }
}

impl Projector {
    /// Opens a projector's file and reads what it says; nothing is encoded yet.
    ///
    /// # Errors
    /// A file that is missing, no GGUF, or no projector's; keys that are missing or wrong; a projector that is not supported.
    pub fn open(path: &Path, access: FileAccess, options: MediaOptions, engine: &Options) -> Result<Projector> {
        Self::of(Gguf::open_with(path, access)?, options, engine)
    }

    /// Opens a projector as [`Projector::open`] does, from a file that is read already.
    ///
    /// # Errors
    /// As [`Projector::open`].
    pub fn of(gguf: Gguf, options: MediaOptions, engine: &Options) -> Result<Projector> {
        let path = &gguf.path().to_path_buf();
        let arch = gguf.meta().arch()?;
        if arch != "clip" {
            let what = format!("general.architecture: expected clip, as a projector's file has it, found {arch}");
            return Err(Error::file(path, "not_a_projector", what));
        }
        let source = ProjectorSource(gguf);
        let clips = Clip::all(&source).map_err(|e| file_error(path, e))?;
        for clip in &clips {
            if !encode::names().any(|name| name == clip.projector) {
                let what = format!("clip.projector_type: no {} encoder `{}`", clip.modality.name(), clip.projector);
                return Err(Error::file(path, "unsupported_projector", what));
            }
        }
        let (source, engine) = (Arc::new(source), engine.clone());
        Ok(Projector {
            source,
            engine,
            encoder: Mutex::default(),
            clips,
            options,
            kept: Mutex::default(),
            waiting: Mutex::default(),
            runs: AtomicU64::new(0),
        })
    }

    /// Has the encoder, which is made if it was not yet, do something.
    fn with_encoder<R>(&self, do_it: impl FnOnce(&mut Encoder) -> Result<R>) -> Result<R> {
        let mut held = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(Encoder::new(&self.source, &self.engine)?);
        }
        let Some(encoder) = held.as_mut() else { unreachable!("it was made above") };
        let done = do_it(encoder);
        if matches!(done, Err(Error::Lost(_) | Error::Vulkan { .. })) {
            // A device that is lost computes nothing more: the next medium opens it anew.
            *held = None;
        }
        done
    }

    fn source(&self) -> &ProjectorSource {
        &self.source
    }

    fn media_error(&self, error: pumex_media::Error) -> Error {
        file_error(self.source().0.path(), error)
    }

    /// How often the encoder ran so far: several media of one size that wait at the same time go in one run.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Whether it takes pictures.
    pub fn sees(&self) -> bool {
        self.clips.iter().any(|c| c.modality == Modality::Vision)
    }

    /// Whether it takes sounds.
    pub fn hears(&self) -> bool {
        self.clips.iter().any(|c| c.modality == Modality::Audio)
    }

    fn clip(&self, picture: bool) -> Result<&Clip> {
        let wanted = if picture { Modality::Vision } else { Modality::Audio };
        self.clips.iter().find(|c| c.modality == wanted).ok_or_else(|| {
            let what = if picture { "pictures" } else { "sounds" };
            Error::Request(format!("{}: this projector takes no {what}", self.source().0.path().display()))
        })
    }

    /// What stands in a prompt for a medium: texts, and inputs of the encoder.
    ///
    /// # Errors
    /// A medium that cannot be decoded or that the projector does not take.
    pub fn prepare(&self, medium: &MediumFile, model: &TextModel<'_>) -> Result<Vec<PromptPiece>> {
        let (clip, begun) = (self.clip(medium.picture)?, Instant::now());
        let pieces = if medium.picture {
            let picture = Picture::decode(&medium.bytes, &PictureLimits::default()).map_err(|e| self.media_error(e))?;
            let least = |a: Option<usize>, b: Option<usize>| a.into_iter().chain(b).min();
            let most = least(self.options.image_max_tokens, medium.max_tokens);
            let options = MediaOptions { image_max_tokens: most, ..self.options };
            pumex_media::prepare_picture(clip, self.source(), &picture, &options, model)
        } else {
            let rate = pumex_media::sound_rate(clip).map_err(|e| self.media_error(e))?;
            let samples = match medium.bare {
                true => {
                    Ok(medium.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
                }
                false => pumex_media::decode_sound(&medium.bytes, rate, &SoundLimits::default()),
            };
            samples.and_then(|samples: Vec<f32>| pumex_media::prepare_sound(clip, self.source(), &samples, model))
        };
        tracing::debug!("a medium of {} bytes: prepared in {:.1?}", medium.bytes.len(), begun.elapsed());
        pieces.map_err(|e| self.media_error(e))
    }

    /// The encoder's rows of a medium, `[rows, width]`.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes; no memory.
    pub fn encode(&self, medium: &pumex_media::Medium) -> Result<Vec<f32>> {
        self.with_encoder(|encoder| self.run_alone(encoder, medium))
    }

    /// The rows of all parts of a medium, one after the other, and their width, as without a text model.
    ///
    /// # Errors
    /// As [`Projector::prepare`] and [`Projector::encode`].
    pub fn rows(&self, file: &MediumFile) -> Result<(Vec<f32>, usize)> {
        let model = TextModel { n_embd: 0, m_rope: false, has_token: &|_| false };
        let (mut all, mut count) = (Vec::new(), 0);
        for piece in self.prepare(file, &model)? {
            if let PromptPiece::Medium(medium) = piece {
                all.extend(self.encode(&medium)?);
                count += medium.rows;
            }
        }
        let width = all.len() / count.max(1);
        Ok((all, width))
    }

    /// The most rows that see each other in a prompt, and so must stand in one step; 0 where none do.
    ///
    /// # Errors
    /// Metadata that cannot be.
    pub fn widest_group(&self, n_embd: usize) -> Result<usize> {
        /// Larger than what any projector takes as it is.
        const SIDE: usize = 2048;
        if !self.sees() {
            return Ok(0);
        }
        let clip = self.clip(true)?;
        let model = TextModel { n_embd, m_rope: false, has_token: &|_| false };
        let white = Picture::new(SIDE, SIDE, vec![255; SIDE * SIDE * 3]).map_err(|e| self.media_error(e))?;
        let pieces = pumex_media::prepare_picture(clip, self.source(), &white, &self.options, &model);
        let group = |piece: &PromptPiece| match piece {
            PromptPiece::Medium(medium) if medium.bidirectional => medium.rows,
            _ => 0,
        };
        Ok(pieces.map_err(|e| self.media_error(e))?.iter().map(group).max().unwrap_or(0))
    }

    /// Where it runs.
    ///
    /// # Errors
    /// No such device.
    pub fn device(&self) -> Result<String> {
        self.with_encoder(|encoder| {
            Ok(match encoder {
                Encoder::Cpu(_) => pumex_engine::cpu_name(),
                Encoder::Vulkan(_, name) => name.clone(),
            })
        })
    }

    /// Encodes media, but for those that are among the media encoded before by their keys.
    fn encode_once(&self, media: &[(u64, Arc<pumex_media::Medium>)]) -> Result<Vec<Arc<[f32]>>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |key: u64| kept().iter().find(|e| e.key == key).map(|e| e.rows.clone());
        let mut found: Vec<Option<Arc<[f32]>>> = media.iter().map(|(key, _)| find(*key)).collect();
        let missing: Vec<usize> = (0..media.len()).filter(|i| found[*i].is_none()).collect();
        let encoded = self.encode_all(missing.iter().map(|i| media[*i].1.clone()).collect())?;
        let mut kept = kept();
        for (i, rows) in missing.into_iter().zip(encoded) {
            let rows: Arc<[f32]> = rows.into();
            kept.push_back(EncodedMedium { key: media[i].0, rows: rows.clone() });
            found[i] = Some(rows);
        }
        while kept.len() > 1 && kept.iter().map(|e| e.rows.len() * 4).sum::<usize>() > MOST_KEPT {
            kept.pop_front();
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// A prompt with media in it: each goes where [`MARK`] stands in the text, in order; without any mark, all go in front.
    ///
    /// # Errors
    /// Another number of marks than of media; a medium that cannot be decoded or encoded.
    pub fn feed(&self, text: &str, media: &[MediumFile], side: &TextSide<'_>) -> Result<Feed> {
        let marked = match text.contains(MARK) {
            true => text.to_string(),
            false => format!("{}{text}", MARK.repeat(media.len())),
        };
        let tokenizer = side.tokenizer;
        self.feed_parts(&marked, media, side, &|range, first| {
            tokenizer.encode(&marked[range], first && tokenizer.add_bos(), true)
        })
    }

    /// The ids and media of a text with as many marks as media, whose parts between them `encode` makes ids of; it is told which is the
    /// first.
    ///
    /// # Errors
    /// As [`Projector::feed`]; those of `encode`.
    pub fn feed_parts(
        &self,
        text: &str,
        media: &[MediumFile],
        side: &TextSide<'_>,
        encode: &dyn Fn(Range<usize>, bool) -> Result<Vec<u32>>,
    ) -> Result<Feed> {
        let mut draft = DraftPrompt::default();
        let (mut at, mut media) = (0, media.iter());
        for (mark, _) in text.match_indices(MARK).chain([(text.len(), "")]) {
            if at < mark || at == 0 {
                draft.text(encode(at..mark, at == 0)?);
            }
            if at == 0 {
                let bos = side.tokenizer.bos().filter(|_| side.tokenizer.add_bos());
                draft.begins = usize::from(bos.is_some() && draft.first == bos);
            }
            if mark == text.len() {
                break;
            }
            let medium = media.next().ok_or_else(|| count_differs(text))?;
            self.add(&mut draft, medium, side)?;
            at = mark + MARK.len();
        }
        match media.next() {
            None => self.fill(draft, side),
            Some(_) => Err(count_differs(text)),
        }
    }

    /// The prompt of a draft: its media are encoded, those of one size together.
    fn fill(&self, draft: DraftPrompt, side: &TextSide<'_>) -> Result<Feed> {
        let mut rows = self.encode_once(&draft.media)?.into_iter();
        let (mut feed, mut media) = (Feed::default(), draft.media.iter().enumerate());
        for part in draft.parts {
            let Some(ids) = part else {
                let (Some((index, (key, medium))), Some(rows)) = (media.next(), rows.next()) else { continue };
                let positions = positions(medium, side.m_rope, index as u32);
                feed.medium(Arc::new(Medium::new(*key, rows, medium.rows, positions, medium.bidirectional)?));
                continue;
            };
            feed.text(&ids);
        }
        Ok(feed)
    }

    /// A medium's rows as a text model of width `n_embd` takes them, without the texts around, encoded anew.
    ///
    /// # Errors
    /// As [`Projector::feed`].
    pub fn feed_alone(&self, file: &MediumFile, (n_embd, m_rope): (usize, bool)) -> Result<Feed> {
        let model = TextModel { n_embd, m_rope, has_token: &|_| false };
        let mut feed = Feed::default();
        for piece in self.prepare(file, &model)? {
            let PromptPiece::Medium(medium) = piece else { continue };
            let (rows, index) = (self.encode(&medium)?.into(), feed.media.iter().count() as u32);
            let positions = positions(&medium, m_rope, index);
            let medium = Medium::new(u64::from(index), rows, medium.rows, positions, medium.bidirectional)?;
            feed.medium(Arc::new(medium));
        }
        Ok(feed)
    }

    fn add(&self, draft: &mut DraftPrompt, file: &MediumFile, side: &TextSide<'_>) -> Result<()> {
        let pieces = side.with(|model| self.prepare(file, model))?;
        let clip = self.clip(file.picture)?;
        let whole = pumex_media::hash_bytes(&file.bytes);
        for (i, piece) in pieces.into_iter().enumerate() {
            match piece {
                PromptPiece::Text(text) => draft.text(side.tokenizer.encode(&text, false, true)?),
                PromptPiece::Token(text) => match side.first_written(&text) {
                    Some(id) => draft.text(vec![id]),
                    None => draft.text(side.tokenizer.encode(&text, false, true)?),
                },
                PromptPiece::Medium(mut medium) => {
                    pumex_media::place(clip, &mut medium, draft.len - draft.begins);
                    let pad = medium.inputs.first().map_or(0, |input| input.lead_pad);
                    let index = draft.media.len();
                    let key = [i, medium.rows, pad, medium.grid[0], file.max_tokens.unwrap_or(0), index]
                        .iter()
                        .fold(whole, |h, n| (h ^ *n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
                    draft.medium(key, medium);
                }
            }
        }
        Ok(())
    }
}

/// A prompt whose media are not encoded yet.
#[derive(Default)]
struct DraftPrompt {
    /// Ids of texts; none where the next medium stands.
    parts: Vec<Option<Vec<u32>>>,
    /// Media with the keys by which they are found again.
    media: Vec<(u64, Arc<pumex_media::Medium>)>,
    /// Ids and rows.
    len: usize,
    first: Option<u32>,
    /// Tokens that begin every prompt: 1, or 0 where there is none.
    begins: usize,
}

impl DraftPrompt {
    fn text(&mut self, ids: Vec<u32>) {
        if self.len == 0 {
            self.first = ids.first().copied();
        }
        self.len += ids.len();
        self.parts.push(Some(ids));
    }

    fn medium(&mut self, key: u64, medium: pumex_media::Medium) {
        self.len += medium.rows;
        self.parts.push(None);
        self.media.push((key, Arc::new(medium)));
    }
}

fn count_differs(text: &str) -> Error {
    let marks = text.matches(MARK).count();
    Error::Request(format!("expected a mark {MARK} in the prompt for each medium, found {marks} marks"))
}

/// Positions of a medium's rows, as the text model has them; `index` counts the media in front of it.
fn positions(medium: &pumex_media::Medium, m_rope: bool, index: u32) -> Positions {
    let [nx, ny] = medium.grid;
    match medium.positions {
        pumex_media::Positions::Grid if m_rope => Positions::grid(nx, ny),
        pumex_media::Positions::GridWithBreaks if m_rope => {
            let columns = nx.max(1) + 1;
            let stream = |i: usize| match i {
                0 => [Stream::After(0); 4],
                _ if i + 1 == medium.rows => [Stream::After(i as u32); 4],
                _ => {
                    let (column, row) = ((i - 1) % columns, (i - 1) / columns);
                    [Stream::After(i as u32), Stream::At(column as u32), Stream::At(row as u32), Stream::At(index)]
                }
            };
            let rows = (0..medium.rows).map(stream).collect();
            Positions::Streams { rows, n_pos: medium.rows }
        }
        _ => Positions::Sequential,
    }
}
