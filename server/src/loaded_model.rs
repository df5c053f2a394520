//! What requests need of a model beside its runner: vocabulary, templates, grammars, facts.

use pumex_dialogue::embedding::Pooling;
use pumex_dialogue::grammar::{GrammarSource, Matcher, Vocabulary};
use pumex_dialogue::{grammar, Style};
use pumex_engine::model_info;
use pumex_gguf::{Gguf, Result};
use pumex_model as model;
use pumex_model::quantize::recipe;
use pumex_serve::engine::{ModelProperties, Pooling as AskedPooling};
use pumex_step::sample::SamplerOptions;
use pumex_step::Runner;
use pumex_text::chat::ModelChat;
use pumex_text::Tokenizer;
use serde_json::{json, Map, Value};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::deterministic;
use super::projector::Eyes;
use super::sampling;
use super::settings::ModelSettings;

/// Compiled sources that are kept.
const MATCHERS: usize = 32;
/// Longest list of the metadata that is told.
const LONGEST: usize = 64;

/// The vocabulary of grammars, or why there is none.
type GrammarVocabulary = std::result::Result<Arc<Vocabulary>, String>;

/// A model's text side.
pub struct LoadedModel {
    /// How it is served.
    pub settings: ModelSettings,
    /// Its vocabulary.
    pub tokenizer: Tokenizer,
    /// How it is talked to without functions and with some; why it cannot be.
    pub style: std::result::Result<[Style; 2], String>,
    /// The sampler's options where a request says nothing.
    pub usual: SamplerOptions,
    /// Facts.
    pub properties: ModelProperties,
    /// The file's words for a query and a text to rank.
    pub rerank_template: Option<String>,
    /// What tells the model from others in files of slots.
    pub fingerprint: OnceLock<u64>,
    /// How it answers sources; none of a model that continues texts.
    pub sources: Option<Sources>,
    /// Whether sequences can be cut anywhere: whether all layers keep all positions.
    pub goes_back: bool,
    /// Why requests cannot be steady; none where they can.
    pub unsteady: Option<String>,
    /// The projector of pictures and sounds.
    pub eyes: Option<Eyes>,
    vocabulary: OnceLock<GrammarVocabulary>,
    matchers: Mutex<Vec<(String, Matcher)>>,
}

/// How a model answers sources, which its encoder sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Id that answers begin with.
    pub start: u32,
    /// Most tokens of a source, all of which must stand in one step.
    pub most: usize,
}

/// What is read of the file while the runner is loaded.
pub struct TextParts {
    tokenizer: Tokenizer,
    style: std::result::Result<[Style; 2], String>,
    template: Option<String>,
    usual: SamplerOptions,
    chat: ModelChat,
    rerank: Option<String>,
}

impl TextParts {
    /// Reads it.
    ///
    /// # Errors
    /// A vocabulary that cannot be read, a template that was given and is none.
    pub fn read(gguf: &Gguf, settings: &ModelSettings) -> Result<TextParts> {
        let (tokenizer, chat) = (Tokenizer::from_gguf(gguf)?, ModelChat::of(gguf)?);
        let given = settings.chat_template.as_deref().map(|text| chat.resolve_template(text));
        // As llama.cpp, which talks so to a model that says nothing.
        let talks = model::plan(gguf)?.encoder.is_none();
        let none = talks && given.is_none() && chat.template.is_none() && chat.family.is_none();
        let given = if none { Some(chat.resolve_template("chatml")) } else { given };
        let source = |tools: bool| match &given {
            Some(source) => Ok(source.clone()),
            None => chat.source(tools),
        };
        let style = |tools: bool| {
            let mut style = Style::of(&source(tools)?, (&chat.bos, &chat.eos), &tokenizer)?;
            style.variables.clone_from(&settings.template_variables);
            Ok::<_, pumex_gguf::Error>(style)
        };
        let both = style(false).and_then(|plain| Ok([plain, style(true)?]));
        let both = match both {
            Err(error) if given.is_some() => return Err(error),
            both => both,
        };
        let usual = (settings.usual)(gguf, &tokenizer)?;
        let rerank = gguf.meta().opt_str("tokenizer.chat_template.rerank")?.map(str::to_string);
        let (template, style) = (source(false).ok(), both.map_err(|e| e.to_string()));
        Ok(TextParts { template, style, tokenizer, usual, chat, rerank })
    }
}

impl LoadedModel {
    /// A model that was loaded onto this runner.
    ///
    /// # Errors
    /// Metadata of wrong types.
    pub fn new(
        gguf: &Gguf,
        (text, eyes): (TextParts, Option<Eyes>),
        settings: ModelSettings,
        runner: &dyn Runner,
    ) -> Result<LoadedModel> {
        let mut properties = properties(gguf, &text, &settings, runner)?;
        (properties.vision, properties.audio) = eyes.as_ref().map_or((false, false), Eyes::takes);
        let TextParts { tokenizer, style, usual, rerank, .. } = text;
        Ok(LoadedModel {
            sources: runner.answers_from().map(|start| Sources { start, most: runner.max_rows() }),
            goes_back: model::plan(gguf)?.keeps_all(),
            unsteady: deterministic::refuses(runner),
            rerank_template: rerank,
            settings,
            tokenizer,
            style,
            usual,
            properties,
            eyes,
            fingerprint: OnceLock::new(),
            vocabulary: OnceLock::new(),
            matchers: Mutex::default(),
        })
    }

    /// Positions of a slot.
    pub fn n_ctx(&self) -> usize {
        self.properties.n_ctx
    }

    /// The vocabulary of grammars.
    ///
    /// # Errors
    /// A model without a vocabulary, or with one too large.
    pub fn vocabulary(&self) -> std::result::Result<&Arc<Vocabulary>, String> {
        let ends = self.style.as_ref().map_or(&[][..], |styles| styles[0].ends());
        let build = || grammar::vocabulary(&self.tokenizer, ends).map_err(|e| e.to_string());
        self.vocabulary.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// A matcher that `compile` makes of what `key` tells, or the one that it made before.
    ///
    /// # Errors
    /// `compile`'s own.
    pub fn matcher(&self, key: String, compile: impl FnOnce() -> Result<Option<Matcher>>) -> Result<Option<Matcher>> {
        let lock = || self.matchers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find(|(k, _)| *k == key).map(|(_, matcher)| matcher.clone());
        if known.is_some() {
            return Ok(known);
        }
        let made = compile()?;
        if let Some(matcher) = &made {
            let mut all = lock();
            if all.len() >= MATCHERS {
                all.remove(0);
            }
            all.push((key, matcher.clone()));
        }
        Ok(made)
    }

    /// A matcher of a text that is of a source.
    ///
    /// # Errors
    /// A source that is wrong.
    pub fn matcher_of(&self, source: &GrammarSource) -> Result<Option<Matcher>> {
        let vocabulary = self.vocabulary().map_err(pumex_gguf::Error::Request)?;
        self.matcher(format!("{source:?}"), || grammar::matcher(vocabulary, source).map(Some))
    }
}

fn properties(gguf: &Gguf, text: &TextParts, settings: &ModelSettings, runner: &dyn Runner) -> Result<ModelProperties> {
    let (info, meta) = (model_info(gguf)?, gguf.meta());
    let (tokenizer, chat) = (&text.tokenizer, &text.chat);
    let style = text.style.as_ref().ok().map(|styles| &styles[1]);
    let width = meta.opt_u32(&format!("{}.embedding_length", info.arch))?.unwrap_or(0);
    let file_type = meta.opt_u32("general.file_type")?.and_then(recipe::of_file_type);
    let infill = tokenizer.infill();
    // Without a seed each request has one of its own.
    let seed = u64::try_from(text.usual.seed).unwrap_or(u64::from(u32::MAX));
    let mut defaults = sampling::describe_chain(&text.usual, seed);
    defaults["n_predict"] = settings.predict.map_or(json!(-1), |n| json!(n));
    Ok(ModelProperties {
        name: settings.name.clone(),
        path: gguf.path().display().to_string(),
        architecture: info.arch.clone(),
        file_type: file_type.map_or("mixed", |recipe| recipe.name).to_string(),
        n_params: info.n_params,
        n_bytes: info.size_bytes,
        n_vocab: tokenizer.n_vocab(),
        vocab_type: meta.opt_str("tokenizer.ggml.model")?.unwrap_or("none").to_string(),
        n_embd: width as usize,
        n_ctx_train: info.n_ctx_train as usize,
        n_ctx: runner.n_ctx(),
        n_slots: settings.slots,
        chat_template: text.template.clone(),
        chat_template_error: text.style.as_ref().err().cloned(),
        tools: style.is_some_and(|s| s.format().calls != pumex_chat::reply::Calls::None),
        reasoning: style.is_some_and(|s| s.format().end_of_reasoning(false).is_some()),
        vision: false,
        audio: false,
        bos_token: chat.bos.clone(),
        eos_token: chat.eos.clone(),
        embeds: settings.embeds.then(|| requested_pooling(settings.pooling_of(gguf))),
        infills: infill.prefix.is_some() && infill.suffix.is_some() && infill.middle.is_some(),
        default_settings: defaults,
        device: runner.device(),
        metadata: metadata(gguf),
    })
}

/// The file's metadata but its long lists.
fn metadata(gguf: &Gguf) -> Value {
    let value = |(key, value): (&str, &pumex_gguf::Value)| {
        let text = value.display();
        let json = serde_json::from_str(&text).ok().filter(|_| text.len() < 1 << 16);
        let short = !matches!(&json, Some(Value::Array(list)) if list.len() > LONGEST);
        short.then(|| (key.to_string(), json.unwrap_or(Value::String(text))))
    };
    let lists = |key: &str| {
        key.starts_with("tokenizer.ggml.")
            && ["tokens", "merges", "scores", "token_type"].iter().any(|k| key.ends_with(k))
    };
    Value::Object(gguf.meta().iter().filter(|(key, _)| !lists(key)).filter_map(value).collect::<Map<_, _>>())
}

fn requested_pooling(pooling: Pooling) -> AskedPooling {
    match pooling {
        Pooling::None => AskedPooling::None,
        Pooling::Mean => AskedPooling::Mean,
        Pooling::Cls => AskedPooling::Cls,
        Pooling::Last => AskedPooling::Last,
        Pooling::Rank => AskedPooling::Rank,
    }
}
