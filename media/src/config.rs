//! What a projector's metadata says (`clip.*`).

use crate::{Error, Result, Source};

/// What an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modality {
    /// Pictures: keys `clip.vision.*`, tensors `v.*`.
    Vision,
    /// Sounds: keys `clip.audio.*`, tensors `a.*`.
    Audio,
}

impl Modality {
    /// Its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Modality::Vision => "vision",
            Modality::Audio => "audio",
        }
    }
}

/// The activation of a tower's feed-forward parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU by tanh.
    Gelu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x * sigmoid(1.702 x)`
    GeluQuick,
}

/// An encoder's hyper-parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// Pictures or sounds.
    pub modality: Modality,
    /// `clip.projector_type`, or that of the modality.
    pub projector: String,
    /// The activation of the feed-forward parts.
    pub activation: Activation,
    /// Width of the tower's rows (`embedding_length`).
    pub width: usize,
    /// `attention.head_count`
    pub heads: usize,
    /// `attention.head_count_kv`
    pub kv_heads: usize,
    /// `attention.head_dim`
    pub head_dim: usize,
    /// `feed_forward_length`
    pub ffn: usize,
    /// `block_count`
    pub blocks: usize,
    /// `projection_dim`
    pub projection: usize,
    /// `attention.layer_norm_epsilon`
    pub eps: f32,
    /// `feature_layer`: blocks whose streams the projector takes.
    pub feature_layers: Vec<i64>,
    /// `image_size`
    pub image_size: usize,
    /// `patch_size`
    pub patch: usize,
    /// `image_mean`
    pub mean: [f32; 3],
    /// `image_std`
    pub std: [f32; 3],
    /// `image_min_pixels`
    pub min_pixels: Option<usize>,
    /// `image_max_pixels`
    pub max_pixels: Option<usize>,
    /// `num_mel_bins`
    pub mel_bins: usize,
}

/// Keys that the projector's own file reads by name.
pub struct ProjectorKeys<'a> {
    source: &'a dyn Source,
    modality: Modality,
}

impl<'a> ProjectorKeys<'a> {
    /// The keys of one modality of a file.
    pub fn new(source: &'a dyn Source, modality: Modality) -> ProjectorKeys<'a> {
        ProjectorKeys { source, modality }
    }

    fn key(&self, name: &str) -> String {
        format!("clip.{}.{name}", self.modality.name())
    }

    /// A whole number from 0 to 2^31 - 1, if the key is there.
    ///
    /// # Errors
    /// Another number.
    pub fn whole(&self, name: &str) -> Result<Option<usize>> {
        match self.source.number(&self.key(name)) {
            None => Ok(None),
            Some(n) if n.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&n) => Ok(Some(n as usize)),
            Some(n) => {
                Err(Error::Key(format!("{}: expected a whole number from 0 to 2147483647, found {n}", self.key(name))))
            }
        }
    }

    /// A whole number from 1 on.
    ///
    /// # Errors
    /// No such key; another number.
    pub fn size(&self, name: &str) -> Result<usize> {
        match self.whole(name)? {
            Some(0) => Err(Error::Key(format!("{}: expected at least 1, found 0", self.key(name)))),
            Some(n) => Ok(n),
            None => Err(Error::Key(format!("{}: expected a whole number, found no such key", self.key(name)))),
        }
    }

    /// A whole number from 1 on, or `default` where the key is not there.
    ///
    /// # Errors
    /// Another number than a whole one from 1 on.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize> {
        match self.source.number(&self.key(name)) {
            None => Ok(default),
            Some(_) => self.size(name),
        }
    }

    /// A finite number.
    ///
    /// # Errors
    /// No such key; a number that is not finite.
    pub fn float(&self, name: &str) -> Result<f32> {
        match self.source.number(&self.key(name)) {
            Some(n) if n.is_finite() => Ok(n as f32),
            Some(n) => Err(Error::Key(format!("{}: expected a finite number, found {n}", self.key(name)))),
            None => Err(Error::Key(format!("{}: expected a number, found no such key", self.key(name)))),
        }
    }

    /// Whole numbers, negative ones too; none if the key is not there.
    ///
    /// # Errors
    /// Numbers that are not whole or beyond 2^31.
    pub fn list(&self, name: &str) -> Result<Vec<i64>> {
        let numbers = self.source.numbers(&self.key(name)).unwrap_or_default();
        let whole = |n: f64| n.fract() == 0.0 && n.abs() <= f64::from(i32::MAX);
        match numbers.iter().find(|n| !whole(**n)) {
            Some(n) => Err(Error::Key(format!("{}: expected whole numbers, found {n}", self.key(name)))),
            None => Ok(numbers.into_iter().map(|n| n as i64).collect()),
        }
    }

    fn triple(&self, name: &str, nonzero: bool) -> Result<[f32; 3]> {
        let numbers = self.source.numbers(&self.key(name)).unwrap_or_default();
        let fits = |n: &f64| n.is_finite() && (!nonzero || *n != 0.0);
        match numbers[..] {
            [a, b, c] if [a, b, c].iter().all(fits) => Ok([a as f32, b as f32, c as f32]),
            _ => Err(Error::Key(format!(
                "{}: expected three finite numbers{}, found {numbers:?}",
                self.key(name),
                if nonzero { " that are not 0" } else { "" }
            ))),
        }
    }
}

/// The most rows and columns that a size of the metadata may say: larger ones are lies.
const MOST: usize = 1 << 20;
/// The most columns that a head of the metadata may have: larger numbers are lies.
const HEAD: usize = 1 << 12;

impl Clip {
    /// The encoders that a file has, pictures first.
    ///
    /// # Errors
    /// A file without any; keys that are missing or wrong.
    pub fn all(source: &dyn Source) -> Result<Vec<Clip>> {
        let has = |m: Modality| source.number(&format!("clip.has_{}_encoder", m.name())).is_some_and(|n| n != 0.0);
        let found: Vec<Modality> = [Modality::Vision, Modality::Audio].into_iter().filter(|m| has(*m)).collect();
        if found.is_empty() {
            return Err(Error::Key(
                "expected clip.has_vision_encoder or clip.has_audio_encoder to be true, found neither".into(),
            ));
        }
        found.into_iter().map(|m| Clip::read(source, m)).collect()
    }

    fn read(source: &dyn Source, modality: Modality) -> Result<Clip> {
        let keys = ProjectorKeys::new(source, modality);
        let flag = |key: &str| source.number(key).is_some_and(|n| n != 0.0);
        let activation = match (flag("clip.use_gelu"), flag("clip.use_silu")) {
            (true, true) => {
                return Err(Error::Key("expected one of clip.use_gelu and clip.use_silu, found both true".into()))
            }
            (true, false) => Activation::Gelu,
            (false, true) => Activation::Silu,
            (false, false) => Activation::GeluQuick,
        };
        let named = |key: String| source.text(&key).filter(|t| !t.is_empty());
        let projector = named("clip.projector_type".into())
            .or_else(|| named(format!("clip.{}.projector_type", modality.name())))
            .ok_or_else(|| Error::Key("clip.projector_type: expected a name, found no such key".into()))?;
        let projector = match (projector.as_str(), modality) {
            ("qwen2.5o", Modality::Vision) => "qwen2.5vl_merger".into(),
            ("qwen2.5o", Modality::Audio) => "qwen2a".into(),
            _ => projector,
        };
        let size = |name: &str| match keys.size(name)? {
            n if n > MOST => Err(Error::Key(format!("{}: expected at most {MOST}, found {n}", keys.key(name)))),
            n => Ok(n),
        };
        // Encoders without a tower say so by no blocks.
        let count = |name: &str| match keys.whole(name)? {
            Some(n) if n <= MOST => Ok(n),
            found => Err(Error::Key(format!("{}: expected 0 to {MOST}, found {found:?}", keys.key(name)))),
        };
        let (width, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let vision = modality == Modality::Vision;
        let head_dim = match keys.whole("attention.head_dim")? {
            Some(n) if (1..=MOST).contains(&n) => n,
            _ => width / heads,
        };
        let kv_heads = keys.size_or("attention.head_count_kv", heads)?;
        if head_dim > HEAD {
            return Err(Error::Key(format!(
                "{}: expected heads of at most {HEAD} columns, found {head_dim}",
                keys.key("attention.head_count")
            )));
        }
        if head_dim == 0 || kv_heads > heads || !heads.is_multiple_of(kv_heads) {
            return Err(Error::Key(format!(
                "{}: expected heads that divide {width} and that kv heads divide, found {heads} and {kv_heads}",
                keys.key("attention.head_count")
            )));
        }
        let optional = |name: &str| keys.whole(name).map(|n| n.filter(|n| *n > 0));
        Ok(Clip {
            modality,
            projector,
            activation,
            width,
            heads,
            kv_heads,
            head_dim,
            ffn: count("feed_forward_length")?,
            blocks: count("block_count")?,
            projection: keys.whole("projection_dim")?.unwrap_or(0),
            eps: keys.float("attention.layer_norm_epsilon")?,
            feature_layers: keys.list("feature_layer")?,
            image_size: if vision { size("image_size")? } else { 0 },
            patch: if vision { size("patch_size")? } else { 0 },
            mean: if vision { keys.triple("image_mean", false)? } else { [0.0; 3] },
            std: if vision { keys.triple("image_std", true)? } else { [1.0; 3] },
            min_pixels: optional("image_min_pixels")?,
            max_pixels: optional("image_max_pixels")?,
            mel_bins: if vision { 0 } else { size("num_mel_bins")? },
        })
    }

    /// The tower's prefix of tensors' names: `v` or `a`.
    pub fn prefix(&self) -> &'static str {
        match self.modality {
            Modality::Vision => "v",
            Modality::Audio => "a",
        }
    }
}
