//! `pumex serve`: one or several models behind the APIs that existing programs speak; flags are llama-server's.

mod defaults;
#[cfg(feature = "download")]
mod library;
mod preset;
mod served_models;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use pumex_gguf::{Error, Result};
use pumex_serve::engine::{Engine, Library};
use pumex_serve::http::{self, Cors, Tls};
use pumex_server::{Models, Scan, Serving};

use super::adapters::AdapterArgs;
use super::embed::PoolingFlag;
use super::options::{gpu_layers, EngineArgs, GpuLayers, ModelArgs, Switch};
use super::sampling::SamplingArgs;
use super::signals::{self, AtOnce};
use super::{files, output, session, CommandEnd};

/// Options of `serve`; names and defaults are llama-server's.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    projector: super::media::ProjectorArgs,
    /// Folder of models, each loaded when a request names it; a model may have a folder of its own in it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "hf_repo", "model_url"])]
    models_dir: Option<PathBuf>,
    /// INI file of models with options of each: [NAME], then KEY = VALUE by the names of these flags; [*] is for all
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "hf_repo", "model_url"])]
    models_preset: Option<PathBuf>,
    /// Most models that are loaded at once; the one that was of no use for longest goes
    #[arg(long, value_name = "N", default_value_t = 4, env = "LLAMA_ARG_MODELS_MAX")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    models_max: u32,
    /// Requests load no models: POST /models/load does, or the parameter autoload of a request's path
    #[arg(long, overrides_with = "models_autoload")]
    no_models_autoload: bool,
    #[arg(long, hide = true, overrides_with = "no_models_autoload")]
    models_autoload: bool,
    /// Unload models after so many seconds without a request; -1 never does
    #[arg(long, value_name = "SECONDS", default_value_t = -1)]
    sleep_idle_seconds: i64,
    #[command(flatten)]
    adapters: AdapterArgs,
    /// Adapters have no effect until a request, or /lora-adapters, gives them a scale
    #[arg(long)]
    lora_init_without_apply: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Most tokens of an answer; -1 until the model ends or the context is full
    #[arg(short = 'n', long, value_name = "N", default_value_t = -1, env = "LLAMA_ARG_N_PREDICT")]
    predict: i64,
    /// Positions of the context that all slots have together; 0 is the model's for each
    #[arg(short, long, value_name = "N", default_value_t = 0, env = "LLAMA_ARG_CTX_SIZE")]
    ctx_size: u32,
    /// Slots: answers that are written at once (-np); -1: 4 that share one context
    #[arg(long, value_name = "N", default_value_t = -1, env = "LLAMA_ARG_N_PARALLEL")]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..=4096))]
    parallel: i32,
    /// Each slot may hold the whole context, of which all take (-kvu)
    #[arg(long, overrides_with = "no_kv_unified")]
    kv_unified: bool,
    /// Each slot has a share of the context (-no-kvu), as with --parallel
    #[arg(long, overrides_with = "kv_unified")]
    no_kv_unified: bool,
    #[arg(long, hide = true)]
    cont_batching: bool,
    /// Requests that may wait
    #[arg(long, value_name = "N", default_value_t = 512)]
    queue: usize,
    /// Sequences that are kept for their beginnings beside those at work
    #[arg(long, value_name = "N", default_value_t = 8)]
    kept: usize,
    /// Users share cached beginnings of prompts
    #[arg(long)]
    share_prefixes: bool,
    /// The same request gives the same answer, whoever is served beside it and whatever is kept: its rows have steps of their own, which
    /// is slower
    #[arg(long)]
    deterministic: bool,
    /// Go on when the context is full: leave out the oldest half of what is not kept
    #[arg(long, overrides_with = "no_context_shift")]
    context_shift: bool,
    #[arg(long, hide = true, overrides_with = "context_shift")]
    no_context_shift: bool,
    /// Tokens at the start that --context-shift keeps; -1 is the whole prompt
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: i64,
    /// Chat template: a name such as chatml, or its text
    #[arg(long, value_name = "NAME|TEXT", conflicts_with = "chat_template_file", env = "LLAMA_ARG_CHAT_TEMPLATE")]
    chat_template: Option<String>,
    /// File with the chat template
    #[arg(long, value_name = "FILE", env = "LLAMA_ARG_CHAT_TEMPLATE_FILE")]
    chat_template_file: Option<PathBuf>,
    /// Further variables of the template, as a JSON object
    #[arg(long, value_name = "JSON")]
    chat_template_kwargs: Option<String>,
    /// Whether models reason where their template has a switch (-rea)
    #[arg(long, value_name = "SWITCH", default_value = "auto")]
    reasoning: Switch,
    /// Most tokens of reasoning; -1 any number
    #[arg(long, value_name = "N", default_value_t = -1)]
    reasoning_budget: i64,
    #[arg(long, hide = true)]
    jinja: bool,
    #[arg(long, hide = true)]
    no_jinja: bool,
    /// Serve vectors of texts, and no answers
    #[arg(long, alias = "embedding")]
    embeddings: bool,
    /// Serve scores of texts for a query, and no answers
    #[arg(long, alias = "rerank")]
    reranking: bool,
    /// How the rows of a text become one vector [default: the model's, else mean]
    #[arg(long, value_enum)]
    pooling: Option<PoolingFlag>,
    /// Folder for slots that are saved
    #[arg(long, value_name = "DIR")]
    slot_save_path: Option<PathBuf>,
    /// Most MiB of saved slots of each key; 0: as many as the disk has
    #[arg(long, value_name = "MIB", default_value_t = 8192)]
    slot_save_limit: u64,
    /// Append a line for each step to a file: its rows, and where its time went
    #[arg(long, value_name = "FILE")]
    log_steps: Option<PathBuf>,
    /// Rows of a step in which prompts stand beside answers that go on: more are faster, and hold answers up for longer
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    prompt_rows: u32,
    #[command(flatten)]
    draft: DraftArgs,
    #[command(flatten)]
    defaults: defaults::DefaultArgs,
    #[command(flatten)]
    http: HttpArgs,
}

/// A small model that proposes what the served one may say.
#[derive(clap::Args, Clone, Debug)]
struct DraftArgs {
    /// Model of the same vocabulary whose proposals are checked several at a time (-md); answers stay what they are
    #[arg(long, value_name = "FILE")]
    model_draft: Option<PathBuf>,
    /// How ids are proposed: none, or draft-simple by that model
    #[arg(long, value_name = "TYPE", default_value = "draft-simple", value_parser = ["none", "draft-simple"])]
    spec_type: String,
    /// Most ids that are proposed at once
    #[arg(long, value_name = "N", default_value_t = 8, alias = "draft-max", alias = "draft")]
    spec_draft_n_max: usize,
    /// Fewer are not proposed
    #[arg(long, value_name = "N", default_value_t = 0, alias = "draft-min")]
    spec_draft_n_min: usize,
    /// Layers of that model on the GPU (-ngld): a number, all, or auto, as many as there is room for
    #[arg(long, value_name = "N", value_parser = gpu_layers, default_value = "auto")]
    gpu_layers_draft: GpuLayers,
}

/// How it is reached.
#[derive(clap::Args, Clone, Debug)]
struct HttpArgs {
    /// Names of the model, with commas between (-a)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', env = "LLAMA_ARG_ALIAS")]
    alias: Vec<String>,
    /// Words that the list of models shows with it
    #[arg(long, value_name = "WORD,...", value_delimiter = ',')]
    tags: Vec<String>,
    /// Addresses to listen on; those that end in .sock are Unix sockets
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', default_value = "127.0.0.1", env = "LLAMA_ARG_HOST")]
    host: Vec<String>,
    /// Port; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8080, env = "LLAMA_ARG_PORT")]
    port: u16,
    /// Keys of which requests must bring one
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', env = "LLAMA_API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// File with such keys, one a line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Listen beyond this machine without a key
    #[arg(long)]
    insecure: bool,
    /// Names that requests may call this server by
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Whose pages may ask: none, localhost, *, or origins [default: localhost]
    #[arg(long, value_name = "ORIGIN,...", value_delimiter = ',')]
    cors_origins: Vec<String>,
    /// Fetch pictures and sounds that requests name by http and https URLs, from public addresses
    #[arg(long)]
    allow_remote_media: bool,
    /// Folder whose files requests may name by file: URLs as pictures and sounds
    #[arg(long, value_name = "DIR", env = "LLAMA_ARG_MEDIA_PATH")]
    media_path: Option<PathBuf>,
    /// Certificate in PEM
    #[arg(long, value_name = "FILE", requires = "ssl_key_file", env = "LLAMA_ARG_SSL_CERT_FILE")]
    ssl_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "ssl_cert_file", env = "LLAMA_ARG_SSL_KEY_FILE")]
    ssl_key_file: Option<PathBuf>,
    /// Tell metrics at /metrics
    #[arg(long)]
    metrics: bool,
    /// A line on stderr for each request, with how long its answer took to begin: auto does so on a terminal
    #[arg(long, value_name = "SWITCH", default_value = "auto")]
    log_requests: Switch,
    #[arg(long, hide = true, overrides_with = "no_slots")]
    slots: bool,
    /// Do not tell what slots do at /slots
    #[arg(long, overrides_with = "slots")]
    no_slots: bool,
    #[arg(long, hide = true)]
    props: bool,
    #[arg(long, alias = "webui", hide = true, overrides_with = "no_ui")]
    ui: bool,
    /// No page for the browser
    #[arg(long, alias = "no-webui", overrides_with = "ui")]
    no_ui: bool,
    /// Path before those of all endpoints, as /x
    #[arg(long, value_name = "PATH", env = "LLAMA_ARG_API_PREFIX", default_value = "")]
    api_prefix: String,
    /// Seconds after which a reader that takes nothing is cut off
    #[arg(long, value_name = "SECONDS", default_value_t = 60, env = "LLAMA_ARG_TIMEOUT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Proxies, by address or network such as 10.0.0.0/8, whose X-Forwarded-For says who brought a wrong key
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    trusted_proxies: Vec<http::Network>,
    /// Connections at a time; above, those that wait for their next request are closed
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Likewise from one address [default: as many as in all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_address: Option<u32>,
    /// Seconds after which a connection without a request is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    idle_timeout: u64,
    /// Threads for connections
    #[arg(long, value_name = "N", default_value_t = 2, env = "LLAMA_ARG_THREADS_HTTP")]
    threads_http: usize,
}

impl HttpArgs {
    fn settings(&self, verbose: bool) -> Result<http::HttpSettings> {
        if let Some(path) = &self.api_key_file {
            http::HttpSettings::keys_of(path).map_err(|e| Error::Usage(format!("--api-key-file: {e}")))?;
        }
        if let Some(path) = self.media_path.as_ref().filter(|path| !path.is_dir()) {
            return Err(Error::Usage(format!("--media-path: expected a folder, found none at {}", path.display())));
        }
        let words: Vec<&str> = self.cors_origins.iter().map(String::as_str).collect();
        let cors = match words[..] {
            ["none" | ""] => Cors::Closed,
            [] | ["localhost"] => Cors::Localhost,
            ["*"] => Cors::Any,
            _ => Cors::Origins(self.cors_origins.clone()),
        };
        let tls = self.ssl_cert_file.clone().zip(self.ssl_key_file.clone());
        Ok(http::HttpSettings {
            hosts: self.host.clone(),
            port: self.port,
            keys: self.api_key.clone(),
            key_file: self.api_key_file.clone(),
            insecure: self.insecure,
            allowed_hosts: self.allowed_hosts.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
            cors,
            tls: tls.map(|(certificate, key)| Tls { certificate, key }),
            prefix: self.api_prefix.trim_end_matches('/').to_string(),
            remote_media: self.allow_remote_media,
            media_path: self.media_path.clone(),
            page: !self.no_ui,
            slots: !self.no_slots,
            metrics: self.metrics,
            log: match self.log_requests {
                Switch::On => Some(output::say),
                Switch::Auto if std::io::stderr().is_terminal() => Some(output::say),
                Switch::Auto | Switch::Off => None,
            },
            verbose,
            threads: self.threads_http.max(1),
            limits: http::ConnectionLimits {
                connections: self.max_connections as usize,
                connections_each: self.max_connections_per_address.unwrap_or(self.max_connections) as usize,
                idle_time: Duration::from_secs(self.idle_timeout),
                ..http::ConnectionLimits::default()
            },
            ..http::HttpSettings::default()
        })
    }
}

/// Serves until a signal ends it.
pub fn main(args: Args, verbose: bool, stop: &AtomicBool) -> Result<CommandEnd> {
    signals::is_service();
    let end = || {
        output::say(format_args!("stopped before it served\n"));
        signals::code()
    };
    signals::at_once(stop, &end, |starting| serve(&args, verbose, starting))
}

fn serve(args: &Args, verbose: bool, starting: &AtOnce<'_>) -> Result<CommandEnd> {
    session::use_threads(&args.engine);
    let settings = http::HttpSettings {
        prefills: args.defaults.prefills(),
        normalize: args.defaults.embd_normalize,
        ..args.http.settings(verbose)?
    };
    let models = served_models::all(args)?;
    // Presets and folders name inputs, too.
    models.iter().filter_map(|model| model.settings.step_log.as_ref()).try_for_each(|path| files::check(path))?;
    let scans = args.models_dir.is_some() || args.models_preset.is_some();
    let several = scans || models.len() > 1;
    let at_start: Vec<String> = models.iter().filter(|m| m.at_start).map(|m| m.settings.name.clone()).collect();
    let again = args.clone();
    let serving = Serving {
        several,
        most: usize::try_from(args.models_max).unwrap_or(usize::MAX),
        autoload: !args.no_models_autoload,
        scan: scans.then(|| Box::new(move || served_models::all(&again)) as Scan),
        library: files_of(args)?,
    };
    let models = Models::new(models, serving);
    load(&models, at_start)?;
    if !several {
        // What cannot be loaded is told before anybody asks.
        models.start()?;
    }
    let told = |addresses: &[http::Address]| {
        starting.release();
        about(&models, several);
        for address in addresses {
            output::say(format_args!("listening on {address}\n"));
        }
    };
    let served = http::serve(models.clone(), settings, told).map_err(|e| Error::Request(e.to_string()));
    models.stop();
    if !models.are_over() {
        // A model is being loaded, or a step takes long: the driver's own end would race with its thread.
        if let Err(error) = &served {
            tracing::error!("{error}");
        }
        signal_hook::low_level::exit(served.map_or(1, |()| signals::code_served()));
    }
    served?;
    Ok(if signals::code_served() == 0 { CommandEnd::Done } else { CommandEnd::Interrupted })
}

/// Says what is served.
fn about(models: &Models, several: bool) {
    if several {
        let n = models.offers().len();
        return output::say(format_args!("models: {n}, each loaded when a request names it\n"));
    }
    let Some(model) = models.find_loaded(None) else { return };
    let p = model.properties();
    let (slots, n_ctx, weights) = (p.n_slots, p.n_ctx, output::bytes(p.n_bytes));
    let (name, kind, device) = (&p.name, &p.architecture, &p.device);
    output::say(format_args!(
        "model {name} ({kind} {}, {weights} of weights) on {device}: {slots} slots, a context of {n_ctx}\n",
        p.file_type
    ));
    if p.n_ctx > p.n_ctx_train && p.n_ctx_train > 0 {
        output::say(format_args!(
            "warning: the model was trained for {} positions, beyond which its answers get worse\n",
            p.n_ctx_train
        ));
    }
    if p.chat_template.is_none() && p.embeds.is_none() {
        output::say(format_args!("note: the model has no chat template (--chat-template), so it continues texts\n"));
    }
}

/// The folder that requests may change.
#[cfg(feature = "download")]
fn files_of(args: &Args) -> Result<Option<Arc<dyn Library>>> {
    let of =
        |folder: &PathBuf| library::Files::new(folder, &args.model).map(|files| Arc::new(files) as Arc<dyn Library>);
    args.models_dir.as_ref().map(of).transpose()
}

#[cfg(not(feature = "download"))]
fn files_of(_: &Args) -> Result<Option<Arc<dyn Library>>> {
    Ok(None)
}

/// Loads models one after the other, while others are served.
fn load(models: &Arc<Models>, names: Vec<String>) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let models = models.clone();
    let work = move || {
        for name in names {
            // What goes wrong is the model's state.
            drop(models.model(Some(&name)));
        }
    };
    let spawned = std::thread::Builder::new().name("start".into()).spawn(work);
    spawned.map(drop).map_err(|e| Error::Request(format!("a thread to load models: {e}")))
}

impl Args {
    fn reasons(&self) -> Option<bool> {
        match self.reasoning {
            Switch::On => Some(true),
            Switch::Off => Some(false),
            Switch::Auto => None,
        }
    }
}

/// The library's name of a pooling.
fn pooling(flag: PoolingFlag) -> pumex_dialogue::embedding::Pooling {
    use pumex_dialogue::embedding::Pooling;
    match flag {
        PoolingFlag::None => Pooling::None,
        PoolingFlag::Mean => Pooling::Mean,
        PoolingFlag::Cls => Pooling::Cls,
        PoolingFlag::Last => Pooling::Last,
        PoolingFlag::Rank => Pooling::Rank,
    }
}
