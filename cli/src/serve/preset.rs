//! `--models-preset FILE`: models and options of each, as llama-server has them in an INI file. A section is a model, `[*]` is for all, and
//! a key is an option's name without dashes, or its variable of the environment. The command line comes before a section, a section
//! before `[*]`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use clap::{CommandFactory, Parser};
use pumex_gguf::{Error, Result};

use super::super::{argv, prompt_source, Cli, Command};
use super::Args;

/// The section for all models.
const ALL: &str = "*";
/// Options of which a server has one each.
const SERVERS: &[&str] = &[
    "models_dir",
    "models_preset",
    "models_max",
    "models_autoload",
    "no_models_autoload",
    "host",
    "port",
    "api_key",
    "api_key_file",
    "insecure",
    "allowed_hosts",
    "cors_origins",
    "allow_remote_media",
    "media_path",
    "ssl_cert_file",
    "ssl_key_file",
    "metrics",
    "log_requests",
    "slots",
    "no_slots",
    "props",
    "ui",
    "no_ui",
    "threads_http",
    "verbose",
    "help",
    "version",
];

/// The file that was read last: it is read again whenever models are listed, and is rarely another one.
static LAST: Mutex<Option<Arc<Preset>>> = Mutex::new(None);

/// A file of models.
pub struct Preset {
    path: PathBuf,
    text: String,
    sections: Vec<Section>,
    /// What was made of them, by name.
    told: Mutex<BTreeMap<String, ModelPreset>>,
}

struct Section {
    name: String,
    line: usize,
    keys: Vec<PresetKey>,
}

struct PresetKey {
    line: usize,
    name: String,
    value: String,
}

/// What a key says.
enum PresetValue {
    /// An option under its long name, and how it is given; nothing where it is off anyway.
    Option(String, Option<String>),
    AtStart(bool),
    Patience(Duration),
}

/// How a model is served.
#[derive(Clone)]
pub struct ModelPreset {
    /// All options.
    pub args: Args,
    /// It is loaded when the server starts.
    pub at_start: bool,
    /// Its requests have so long to end when it is unloaded.
    pub patience: Option<Duration>,
    /// It has names or tags of its own.
    pub is_named: bool,
    /// What the file says of it.
    pub text: String,
}

impl Preset {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read; lines that are no section, key or comment; keys that are no options of a model.
    pub fn read(path: &Path) -> Result<Arc<Preset>> {
        let text = prompt_source::read_file(path)?;
        let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(preset) = last().as_ref().filter(|last| last.path == path && last.text == text) {
            return Ok(preset.clone());
        }
        let (sections, told) = (sections(path, &text)?, Mutex::default());
        let preset = Preset { path: path.to_path_buf(), text, sections, told };
        for section in &preset.sections {
            for key in &section.keys {
                let said = read_key(key).map_err(|what| preset.wrong(section, key, &what))?;
                if let PresetValue::Option(_, Some(flag)) = said {
                    parse_args([flag.into()]).map_err(|what| preset.wrong(section, key, &what))?;
                }
            }
        }
        let preset = Arc::new(preset);
        *last() = Some(preset.clone());
        Ok(preset)
    }

    fn wrong(&self, section: &Section, key: &PresetKey, what: &str) -> Error {
        Error::Usage(format!("{}:{}: [{}] {}: {what}", self.path.display(), key.line, section.name, key.name))
    }

    /// The models that it names, with their lines.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str()).filter(|name| *name != ALL)
    }

    /// That a model has no file.
    pub fn has_no_file(&self, name: &str) -> Error {
        let line = self.sections.iter().find(|section| section.name == name).map_or(0, |section| section.line);
        let what = "expected model, hf-repo or model-url, or a file of that name in --models-dir";
        Error::Usage(format!("{}:{line}: [{name}]: {what}", self.path.display()))
    }

    /// How a model is served, which may have no section, behind the command line.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn of(&self, name: &str, line: &[OsString]) -> Result<ModelPreset> {
        let known = || self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = known().get(name) {
            return Ok(told.clone());
        }
        let told = self.build_preset(name, line)?;
        known().insert(name.into(), told.clone());
        Ok(told)
    }

    fn build_preset(&self, name: &str, line: &[OsString]) -> Result<ModelPreset> {
        let given: BTreeSet<String> = line.iter().filter_map(|arg| group(arg.to_str()?)).collect();
        let mut told = (false, None, false);
        let (mut known, mut flags) = (given, Vec::new());
        let own = self.sections.iter().filter(|section| section.name == name);
        let all = own.chain(self.sections.iter().filter(|section| section.name == ALL));
        let mut at = 0;
        for (section, key) in all.flat_map(|section| section.keys.iter().map(move |key| (section, key))) {
            at = if section.name == ALL { at } else { section.line };
            match read_key(key).map_err(|what| self.wrong(section, key, &what))? {
                PresetValue::Option(long, flag) => {
                    let first = known.insert(group(&long).unwrap_or(long.clone()));
                    told.2 |= first && section.name != ALL && ["--alias", "--tags"].contains(&long.as_str());
                    flags.extend(flag.filter(|_| first));
                }
                PresetValue::AtStart(yes) => told.0 = if section.name == ALL { told.0 || yes } else { yes },
                PresetValue::Patience(time) => told.1 = told.1.or(Some(time)),
            }
        }
        let kept = line.iter().filter(|arg| !arg.to_string_lossy().starts_with("--models-"));
        let args = parse_args(flags.iter().map(OsString::from).chain(kept.cloned()));
        let args = args.map_err(|what| Error::Usage(format!("{}:{at}: [{name}]: {what}", self.path.display())))?;
        Ok(ModelPreset { args, at_start: told.0, patience: told.1, is_named: told.2, text: flags.join(" ") })
    }
}

/// The arguments of this process behind `serve`, as clap sees them.
pub fn command_line() -> Vec<OsString> {
    let all = argv::rewrite(std::env::args_os().skip(1)).args;
    all.into_iter().skip_while(|arg| arg != "serve").skip(1).collect()
}

fn parse_args(args: impl IntoIterator<Item = OsString>) -> std::result::Result<Args, String> {
    let words = ["pumex", "serve"].into_iter().map(OsString::from);
    let first = |error: clap::Error| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    match Cli::try_parse_from(words.chain(args)).map_err(first)?.command {
        Command::Serve(args) => Ok(*args),
        _ => Err("expected options of serve".into()),
    }
}

/// What a flag and its opposite have in common; none of what is no long flag.
fn group(flag: &str) -> Option<String> {
    let long = flag.strip_prefix("--")?.split('=').next()?;
    Some(long.strip_prefix("no-").unwrap_or(long).to_string())
}

/// The long name of an option, without dashes, by any of its names.
fn long(name: &str) -> Option<&'static str> {
    let is = |flag: &str| flag.strip_prefix("--").or_else(|| flag.strip_prefix('-')) == Some(name);
    let mut known = argv::SERVE.iter().chain(argv::COMMON);
    known.find(|(others, long, _)| is(long) || others.iter().any(|flag| is(flag)))?.1.strip_prefix("--")
}

fn truth(value: &str) -> std::result::Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" | "enabled" => Ok(true),
        "false" | "off" | "0" | "no" | "disabled" => Ok(false),
        _ => Err(format!("expected true or false, found {value}")),
    }
}

/// What a key says, or what is wrong with it.
fn read_key(key: &PresetKey) -> std::result::Result<PresetValue, String> {
    let name = key.name.trim_start_matches('-').replace('_', "-");
    match name.as_str() {
        "load-on-startup" => return Ok(PresetValue::AtStart(truth(&key.value)?)),
        "stop-timeout" => {
            let seconds = key.value.parse().map_err(|_| format!("expected seconds, found {}", key.value))?;
            return Ok(PresetValue::Patience(Duration::from_secs(seconds)));
        }
        _ => {}
    }
    static COMMANDS: LazyLock<clap::Command> = LazyLock::new(Cli::command);
    let serve = COMMANDS.find_subcommand("serve").ok_or("there is no server")?;
    let find = |long: &str| {
        let is = |arg: &&clap::Arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().unwrap_or_default().contains(&long)
        };
        serve.get_arguments().find(is)
    };
    let by_variable =
        || serve.get_arguments().find(|arg| arg.get_env().is_some_and(|variable| variable == key.name.as_str()));
    let plain = name.strip_prefix("LLAMA-ARG-").unwrap_or(&name).to_ascii_lowercase();
    let long = long(&plain).unwrap_or(&plain);
    let arg = by_variable().or_else(|| find(long)).ok_or("there is no such option")?;
    if SERVERS.contains(&arg.get_id().as_str()) {
        return Err("this option is the whole server's, and belongs on the command line".into());
    }
    let long = arg.get_long().unwrap_or(long);
    let flag = format!("--{long}");
    if arg.get_action().takes_values() {
        let switches = arg.get_possible_values().iter().any(|value| value.matches("on", true));
        let value = match truth(&key.value) {
            Ok(yes) if switches => if yes { "on" } else { "off" }.to_string(),
            _ => key.value.clone(),
        };
        return Ok(PresetValue::Option(flag.clone(), Some(format!("{flag}={value}"))));
    }
    if truth(&key.value)? {
        return Ok(PresetValue::Option(flag.clone(), Some(flag)));
    }
    let opposite = long.strip_prefix("no-").map_or(format!("no-{long}"), str::to_string);
    Ok(PresetValue::Option(flag, find(&opposite).map(|_| format!("--{opposite}"))))
}

fn sections(path: &Path, text: &str) -> Result<Vec<Section>> {
    let wrong = |line: usize, what: String| Err(Error::Usage(format!("{}:{line}: {what}", path.display())));
    let mut all: Vec<Section> = Vec::new();
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, line) = (i + 1, line.trim());
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            if name.is_empty() || all.iter().any(|section| section.name == name) {
                return wrong(number, format!("[{name}]: expected a name that no other section has"));
            }
            all.push(Section { name: name.into(), line: number, keys: Vec::new() });
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return wrong(number, format!("expected [a section], key = value, or a comment, found {line:.80}"));
        };
        let key = PresetKey { line: number, name: name.trim().into(), value: value.trim().into() };
        match all.last_mut() {
            None if key.name == "version" && key.value == "1" => {}
            None => return wrong(number, format!("{}: expected version = 1 or a section before it", key.name)),
            Some(section) if section.keys.iter().any(|known| known.name == key.name) => {
                return wrong(number, format!("[{}] {}: it is given twice", section.name, key.name));
            }
            Some(section) => section.keys.push(key),
        }
    }
    Ok(all)
}
