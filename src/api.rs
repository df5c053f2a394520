//! Models for programs: opened, asked, and asked again, from as many threads as one likes.
//!
//! A [`Model`] continues texts ([`Model::generate`]), answers conversations ([`Model::chat`]), and gives vectors ([`Model::embed`]) and
//! logits ([`Model::logits`]). All of it is the crate's front page; the other modules are how it is done.

mod answer;
mod hub;
mod message;
mod options;
mod request;
mod session;

pub use answer::{Answer, CallDelta, Chunk, Reply, Token, ToolCall};
pub use message::{Message, Tool};
pub use options::ModelOptions;
pub use pumex_serve::engine::{Constraint, FinishReason, Pooling, Sampling, Timings, TokenLogprob, ToolChoice};
pub use request::{Prompt, Request};
pub use session::{Sampler, Session};

use crate::engine::model_info;
use crate::gguf::{Gguf, Value};
use crate::plan::LayerState;
use crate::server::Models;
use crate::text::Tokenizer;
use crate::{conversation, model, Error, Result};
use answer::{refusal_error, wait};
use options::Source;
use pumex_serve::engine::{Embed, EmbeddingResult, Engine, PromptPart};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::oneshot;

/// A model. Clones are the same one; it is unloaded with the last of them and of its answers.
///
/// ```no_run
/// use pumex::{Message, Model};
///
/// let model = Model::open("model.gguf")?;
/// let reply = model.chat([Message::user("What is a pumice?")]).max_tokens(100).reply()?;
/// println!("{reply}");
/// # Ok::<(), pumex::Error>(())
/// ```
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    options: ModelOptions,
    source: Source,
    gguf: Arc<Gguf>,
    n_vocab: usize,
    /// Texts are not written.
    is_for_vectors: bool,
    tokenizer: OnceLock<Tokenizer>,
    texts: Arc<Models>,
    vectors: Arc<Models>,
    logits: Mutex<Option<Session>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Answers that are being read hold on to what they need.
        self.texts.drain();
        self.vectors.drain();
    }
}

impl ModelOptions {
    /// Opens a GGUF file and loads it. Blocks until it is there.
    ///
    /// # Errors
    /// A file that is missing, damaged, or of a model that is not supported; too little memory; no such device.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Model> {
        Model::load(self, Source::File(path.as_ref().to_path_buf()))
    }

    /// Loads a model that is in the program itself: `bytes` must lie at an address that is a multiple of 64.
    ///
    /// # Errors
    /// As [`ModelOptions::open`].
    pub fn open_static(self, name: &'static str, bytes: &'static [u8]) -> Result<Model> {
        Model::load(self, Source::Bytes(name, bytes))
    }

    /// Loads a model of the Hugging Face Hub, as `user/repo:Q4_K_M`, with the projector beside it where there is one. It is
    /// fetched into the cache that other tools share (`HF_HOME`), unless it is there.
    ///
    /// # Errors
    /// As [`ModelOptions::open`]; no such repository; a hub that cannot be reached.
    pub fn from_hub(self, repo: &str) -> Result<Model> {
        let found = hub::fetch(repo)?;
        let beside = found.mmproj.filter(|_| !self.has_projector());
        let options = beside.into_iter().fold(self, ModelOptions::mmproj);
        options.open(found.model)
    }
}

impl Model {
    /// How a model is opened, where the defaults are not it.
    pub fn options() -> ModelOptions {
        ModelOptions::default()
    }

    /// [`ModelOptions::open`] with the defaults.
    ///
    /// # Errors
    /// As there.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Model::options().open(path)
    }

    /// [`ModelOptions::from_hub`] with the defaults.
    ///
    /// # Errors
    /// As there.
    pub fn from_hub(repo: &str) -> Result<Model> {
        Model::options().from_hub(repo)
    }

    fn load(options: ModelOptions, source: Source) -> Result<Model> {
        let gguf = Arc::new(options.gguf(&source)?);
        let planned = model::plan(&gguf).map(|plan| (plan.n_ids(), plan.looks_ahead()));
        let (n_vocab, looks_ahead) = match planned {
            // A vocabulary alone.
            Err(_) if options.waits() && gguf.tensors().is_empty() => (Tokenizer::from_gguf(&gguf)?.n_vocab(), false),
            planned => planned?,
        };
        let name = gguf.path().file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned());
        let [texts, vectors] = [false, true].map(|embeds| options.build_server(&name, &source, embeds));
        let (is_for_vectors, waits) = (options.is_for_vectors() || looks_ahead, options.waits());
        let (tokenizer, logits) = (OnceLock::new(), Mutex::new(None));
        let inner = Inner { options, source, gguf, n_vocab, is_for_vectors, tokenizer, texts, vectors, logits };
        let model = Model(Arc::new(inner));
        match waits {
            true => {}
            false if is_for_vectors => model.0.vectors.start()?,
            false => model.0.texts.start()?,
        }
        Ok(model)
    }

    /// Continues a prompt: a text, ids, or a [`Prompt`] with pictures and sounds.
    pub fn generate(&self, prompt: impl Into<Prompt>) -> Request<'_> {
        Request::of_prompt(&self.0.texts, prompt.into())
    }

    /// Answers a conversation, by the model's own chat template.
    pub fn chat(&self, messages: impl IntoIterator<Item = impl Into<Message>>) -> Request<'_> {
        Request::of_chat(&self.0.texts, messages.into_iter().map(Into::into).collect())
    }

    /// Writes what stands between two texts, of a model that knows how to.
    pub fn infill(&self, before: impl Into<String>, after: impl Into<String>) -> Request<'_> {
        Request::of_gap(&self.0.texts, before.into(), after.into())
    }

    /// A vector of length one for each text, by the model's own pooling, or the mean of its tokens. A model that writes texts is
    /// loaded once more for that, at the first call; [`ModelOptions::embeddings`] loads it for vectors alone.
    ///
    /// # Errors
    /// A model that has no vectors; a text that is longer than the context.
    pub fn embed<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) -> Result<Vec<Vec<f32>>> {
        let embedded = self.embed_with(texts, None, None, false)?;
        Ok(embedded.into_iter().filter_map(|(mut vectors, _)| vectors.pop()).collect())
    }

    /// A vector for each text by a way of pooling, where it is not the model's ([`Pooling::None`]: a vector for each token), and a norm of
    /// length:
    /// 2 is Euclid's, -1 leaves vectors as they are, none is usual. A text that is too long is cut at its end if so asked. Gives
    /// vectors and number of tokens of each text.
    ///
    /// # Errors
    /// As [`Model::embed`].
    pub fn embed_with<T: AsRef<str>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        pooling: Option<Pooling>,
        normalize: Option<i32>,
        truncate: bool,
    ) -> Result<Vec<(Vec<Vec<f32>>, usize)>> {
        let inputs = texts.into_iter().map(|text| vec![PromptPart::Text(text.as_ref().to_string())]).collect();
        self.0.vectors.start()?;
        let model = self.0.vectors.model(None).map_err(refusal_error)?;
        let (reply, done) = oneshot::channel();
        model.embed(&Embed { inputs, truncate, pooling, normalize }, reply).map_err(refusal_error)?;
        let gone = |_| Error::Request("the model gave up this request".into());
        let all = wait(done).map_err(gone)?.map_err(refusal_error)?;
        Ok(all.into_iter().map(|EmbeddingResult { vectors, tokens }| (vectors, tokens)).collect())
    }

    /// The logits after each of these ids, `[ids][n_vocab]`. The model is loaded once more for that, at the first call.
    ///
    /// # Errors
    /// As [`Session::eval`].
    pub fn logits(&self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let mut known = self.0.logits.lock().unwrap_or_else(PoisonError::into_inner);
        let session = match &mut *known {
            Some(session) => session,
            none => none.insert(self.session()?),
        };
        session.forget(0)?;
        let all = session.eval_all(ids)?;
        Ok(all.chunks(session.n_vocab().max(1)).map(<[f32]>::to_vec).collect())
    }

    /// A sequence for programs that choose ids themselves. The model is loaded once more for it.
    ///
    /// # Errors
    /// Too little memory; a model whose texts must stand in one step.
    pub fn session(&self) -> Result<Session> {
        Session::load(self.0.gguf.clone(), self.0.options.alone())
    }

    /// What chooses ids for a [`Session`], within a grammar or schema, if there is one.
    ///
    /// # Errors
    /// Numbers out of their range; a grammar that is wrong.
    pub fn sampler(&self, sampling: &Sampling, within: Option<&Constraint>) -> Result<Sampler> {
        Sampler::new(self.tokenizer()?, sampling, within)
    }

    fn tokenizer(&self) -> Result<&Tokenizer> {
        if let Some(known) = self.0.tokenizer.get() {
            return Ok(known);
        }
        let read = Tokenizer::from_gguf(&self.0.gguf)?;
        Ok(self.0.tokenizer.get_or_init(|| read))
    }

    /// Ids of a text, with what stands at the beginning of every text; special tokens are read out of it.
    ///
    /// # Errors
    /// Text that the vocabulary cannot hold; a model without a vocabulary.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>> {
        self.tokenize_with(text, true, true)
    }

    /// Ids of a text: with what stands at the beginning of every text, and special tokens read out of it, if so asked.
    ///
    /// # Errors
    /// As [`Model::tokenize`].
    pub fn tokenize_with(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        tokenizer.encode(text, add_special && tokenizer.add_bos(), parse_special)
    }

    /// The text of ids. Special tokens have none.
    ///
    /// # Errors
    /// Ids that are not in the vocabulary.
    pub fn detokenize(&self, ids: &[u32]) -> Result<String> {
        conversation::check_ids(ids, self.tokenizer()?.n_vocab())?;
        Ok(self.tokenizer()?.decode(ids))
    }

    /// The bytes of an id, which may be a part of a character. Special tokens have none, unless they are asked for by name.
    ///
    /// # Errors
    /// An id that is not in the vocabulary.
    pub fn token_bytes(&self, id: u32, special: bool) -> Result<Vec<u8>> {
        let tokenizer = self.tokenizer()?;
        conversation::check_ids(&[id], tokenizer.n_vocab())?;
        Ok(match (tokenizer.piece(id), special) {
            ([], true) => tokenizer.token_text(id).to_vec(),
            (piece, _) => piece.to_vec(),
        })
    }

    /// The id that ends a text, where the vocabulary has one.
    ///
    /// # Errors
    /// A vocabulary that cannot be read.
    pub fn eos(&self) -> Result<Option<u32>> {
        Ok(self.tokenizer()?.eos())
    }

    /// The id that begins a text, likewise.
    ///
    /// # Errors
    /// As [`Model::eos`].
    pub fn bos(&self) -> Result<Option<u32>> {
        Ok(self.tokenizer()?.bos())
    }

    /// Whether an id ends a text or a turn.
    ///
    /// # Errors
    /// As [`Model::eos`].
    pub fn is_end(&self, id: u32) -> Result<bool> {
        Ok(self.tokenizer()?.is_end(id))
    }

    /// Ids of the vocabulary, and so logits of a row.
    pub fn n_vocab(&self) -> usize {
        self.0.n_vocab
    }

    /// Positions of the context. Loads the model if it is not yet.
    ///
    /// # Errors
    /// A model that cannot be loaded.
    pub fn n_ctx(&self) -> Result<usize> {
        Ok(self.loaded_engine_model()?.properties().n_ctx)
    }

    /// One line naming the device. Loads the model if it is not yet.
    ///
    /// # Errors
    /// A model that cannot be loaded.
    pub fn device(&self) -> Result<String> {
        Ok(self.loaded_engine_model()?.properties().device.clone())
    }

    fn loaded_engine_model(&self) -> Result<Arc<dyn pumex_serve::engine::Model>> {
        let models = if self.0.is_for_vectors { &self.0.vectors } else { &self.0.texts };
        models.start()?;
        models.model(None).map_err(refusal_error)
    }

    /// What the file says of itself: `llama 8B Q4_K - Medium`.
    ///
    /// # Errors
    /// A file that does not say what it is.
    pub fn description(&self) -> Result<String> {
        Ok(model_info(&self.0.gguf)?.description)
    }

    /// A value of the file's metadata, as text: strings as they are, of a list its first items. None where there is no such key.
    pub fn metadata(&self, key: &str) -> Option<String> {
        Some(match self.0.gguf.meta().get(key)? {
            Value::Str(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            value => value.display(),
        })
    }

    /// The keys of the file's metadata.
    pub fn metadata_keys(&self) -> Vec<String> {
        self.0.gguf.meta().iter().map(|(key, _)| key.to_string()).collect()
    }

    /// Whether layers keep positions, and whether layers keep states, which cannot go back.
    ///
    /// # Errors
    /// None that opening the model did not tell.
    pub fn keeps(&self) -> Result<(bool, bool)> {
        let plan = model::plan(&self.0.gguf)?;
        let any = |is: fn(&LayerState) -> bool| plan.layers.iter().any(is);
        Ok((any(|l| matches!(l, LayerState::KeysValues(_))), any(|l| matches!(l, LayerState::Recurrent(_)))))
    }

    /// Where the model's file is; the name of one in the program.
    pub fn path(&self) -> &Path {
        match &self.0.source {
            Source::File(path) => path,
            Source::Bytes(name, _) => Path::new(name),
        }
    }

    /// What answers requests in plain data: of texts, or of vectors.
    #[doc(hidden)]
    pub fn engine(&self, embeds: bool) -> Arc<dyn Engine> {
        if embeds {
            self.0.vectors.clone()
        } else {
            self.0.texts.clone()
        }
    }
}
