//! Speed of a picture: that of its encoder, and that from the picture to the first token, in rows of the text model per second.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pumex_dialogue::projector::{shape_of, MediaOptions, MediumFile, Projector};
use pumex_engine::conversation::run_chunks;
use pumex_gguf::{Error, FileAccess, Gguf, Result};
use pumex_model as model;
use pumex_model::synthetic::{find_projector, noise, ProjectorShape, PROJECTORS};
use pumex_step::{RowOutput, Runner};

use super::super::media;
use super::super::options::EngineArgs;
use super::{report, BenchResult, Test, WARM_UP};

/// Which picture is measured, by which projector.
#[derive(clap::Args, Clone, Debug)]
pub struct PictureArgs {
    /// Measure the encoder of this projector too (-mm)
    #[arg(long, value_name = "FILE", requires = "image")]
    mmproj: Option<PathBuf>,
    /// Picture that it encodes; without it, noise of the synthetic projector's size
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// No projector's file: one of this shape with random weights
    #[arg(long, value_name = "NAME", value_parser = shape, conflicts_with = "mmproj")]
    synthetic_mmproj: Option<&'static ProjectorShape>,
}

fn shape(name: &str) -> std::result::Result<&'static ProjectorShape, String> {
    let names: Vec<&str> = PROJECTORS.iter().map(|s| s.name).collect();
    find_projector(name).ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// A projector and a picture for it.
pub struct Pictures {
    projector: Projector,
    file: MediumFile,
    name: String,
    /// Width of the text model's embeddings, and whether its rotations have several streams of positions.
    model: (usize, bool),
    rows: u32,
}

impl PictureArgs {
    /// Whether there is something to measure.
    pub fn some(&self) -> bool {
        self.mmproj.is_some() || self.synthetic_mmproj.is_some()
    }

    /// Opens the projector for rows as wide as `n_embd`, none as its own; and reads its picture, with a name for it.
    ///
    /// # Errors
    /// A projector or picture that cannot be read; neither named.
    pub fn read(
        &self,
        n_embd: Option<usize>,
        access: FileAccess,
        engine: &EngineArgs,
    ) -> Result<(Projector, MediumFile, String)> {
        let options = engine.options(None);
        let projector = match (&self.mmproj, self.synthetic_mmproj) {
            (Some(path), _) => Projector::open(path, access, MediaOptions::default(), &options)?,
            (None, Some(shape)) => {
                let width = n_embd.map(u32::try_from).transpose();
                let width = width.map_err(|_| Error::Request("n_embd: too large".into()))?;
                Projector::of(shape.model(width), MediaOptions::default(), &options)?
            }
            (None, None) => return Err(Error::Usage("expected --mmproj or --synthetic-mmproj, found neither".into())),
        };
        let (file, name) = match (&self.image, self.synthetic_mmproj) {
            (Some(path), _) => (media::read(path, true)?, stem(path)),
            (None, shape) => {
                let side = shape.map_or(0, |shape| shape.side);
                let bytes = noise(side).into();
                (MediumFile { picture: true, bytes, bare: false, max_tokens: None }, format!("{side}x{side}"))
            }
        };
        Ok((projector, file, name))
    }

    /// Opens the projector and prepares its picture once.
    ///
    /// # Errors
    /// A projector or picture that cannot be read or do not suit the model.
    pub fn open(&self, gguf: &Gguf, access: FileAccess, engine: &mut EngineArgs) -> Result<Option<Pictures>> {
        if !self.some() {
            return Ok(None);
        }
        let model = shape_of(gguf, &model::plan(gguf)?)?;
        let (projector, file, name) = self.read(Some(model.0), access, engine)?;
        let feed = projector.feed_alone(&file, model)?;
        let rows = u32::try_from(feed.ids.len()).map_err(|_| Error::Request("a picture: too many rows".into()))?;
        if let Some(most) = feed.media.iter().filter(|(_, m)| m.sees_itself()).map(|(_, m)| m.rows()).max() {
            engine.take_rows(most as u32);
        }
        Ok(Some(Pictures { projector, file, name, model, rows }))
    }
}

fn stem(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

impl Pictures {
    /// Rows that the picture takes in a prompt.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Times of the encoder, preprocessing included, and of all from the picture to the first token.
    ///
    /// # Errors
    /// As of encoding and of steps.
    pub(super) fn measure(
        &self,
        runner: &mut dyn Runner,
        repetitions: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<BenchResult>> {
        let mut out = Vec::new();
        for whole in [false, true] {
            let begun = Instant::now();
            while self.once(runner, whole, stop)?.is_some() && begun.elapsed() < WARM_UP {}
            let time = report::now();
            let samples: Result<Vec<Option<u64>>> = (0..repetitions).map(|_| self.once(runner, whole, stop)).collect();
            let samples_ns: Vec<u64> = samples?.into_iter().flatten().collect();
            if samples_ns.is_empty() {
                break;
            }
            let test = Test { n_prompt: self.rows, n_gen: 0, n_depth: 0 };
            let what = if whole { "picture" } else { "encoder" };
            out.push(BenchResult { test, picture: Some(format!("{what} {}", self.name)), time, samples_ns });
        }
        Ok(out)
    }

    /// One run in nanoseconds; none when stopped.
    fn once(&self, runner: &mut dyn Runner, whole: bool, stop: &AtomicBool) -> Result<Option<u64>> {
        runner.forget(0, 0);
        let begun = Instant::now();
        let feed = self.projector.feed_alone(&self.file, self.model)?;
        if whole {
            let last = feed.ids.len().saturating_sub(1);
            let rows = feed.rows(0, |i| if i == last { RowOutput::Id } else { RowOutput::None });
            if !run_chunks(runner, &rows, stop, &mut |_| Ok(()))? {
                return Ok(None);
            }
        }
        let ns = begun.elapsed().as_nanos() as u64;
        Ok((!stop.load(Ordering::Relaxed)).then_some(ns))
    }
}
