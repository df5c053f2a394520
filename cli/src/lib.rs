//! The command line: parsing, logging, Ctrl-C and exit codes. Each command lives in its own file.
//!
//! Arguments pass `argv::rewrite` first, so llama.cpp's flags work. stdout carries results only.

mod adapters;
mod argv;
mod bench;
#[cfg(feature = "serve")]
mod bench_serve;
mod chat;
#[cfg(feature = "convert")]
mod convert;
mod devices;
mod diffusion;
mod docs;
mod doctor;
mod embed;
mod explain;
mod fetch;
mod files;
mod flags;
mod folder;
mod grammar;
mod help;
mod imatrix;
mod inspect;
#[cfg(feature = "download")]
mod library;
mod llama_cpp_flags;
mod logits;
mod media;
mod merge_lora;
mod metadata_overrides;
mod no_op_flags;
mod ollama_sidecar;
mod options;
mod output;
mod perplexity;
mod preparing;
mod profile;
mod prompt_cache;
mod prompt_source;
mod prompted_model;
mod quantize;
mod refused_flags;
mod run;
mod sampler_values;
mod sampling;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod signals;
mod template;
mod tokenize;
mod tune;
mod variables;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pumex_gguf::Error;
use tracing_subscriber::EnvFilter;

/// Run llama.cpp-format (GGUF) models on any Vulkan GPU.
#[derive(Parser)]
#[command(name = "pumex", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// More log lines on stderr (twice: even more); RUST_LOG overrides it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Talk to a model, or continue a prompt (the default command)
    Run(Box<run::Args>),
    /// Serve models over HTTP
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    /// Fetch a model by its name, and keep it
    #[cfg(feature = "download")]
    Pull(library::PullArgs),
    /// List the models that were fetched
    #[cfg(feature = "download")]
    List(library::ListArgs),
    /// Say what a model is and needs
    #[cfg(feature = "download")]
    Show(library::ShowArgs),
    /// Remove models that were fetched
    #[cfg(feature = "download")]
    Rm(library::RmArgs),
    /// Print a file's metadata and tensors
    Inspect(inspect::Args),
    /// Print a text's token ids
    Tokenize(tokenize::Args),
    /// Print the prompt that a chat template makes of messages
    Template(template::Args),
    /// Say what this machine can run, and where
    Doctor(doctor::Args),
    /// List the Vulkan devices
    Devices(devices::Args),
    /// Give the embeddings of texts
    Embed(embed::Args),
    /// Write the logits of every position to a file
    Logits(logits::Args),
    /// Measure perplexity on a text
    Perplexity(perplexity::Args),
    /// Measure speed
    Bench(bench::Args),
    /// Measure what many users of a server see
    #[cfg(feature = "serve")]
    BenchServe(bench_serve::Args),
    /// Show which kernels a step would run, on a device that need not be there
    Explain(explain::Args),
    /// Show where the GPU time of a step goes
    Profile(profile::Args),
    /// Measure which shapes of kernels are fastest for a model on a device, and keep them
    Tune(tune::Args),
    /// Measure which columns matter, for better quantization
    Imatrix(imatrix::Args),
    /// Make a file of a Hugging Face folder
    #[cfg(feature = "convert")]
    Convert(convert::Args),
    /// Make a file of another weight type
    Quantize(quantize::Args),
    /// Split a file into several
    Split(quantize::SplitArgs),
    /// Merge a split set into one file
    Merge(quantize::MergeArgs),
    /// Write a model with LoRA adapters added to its weights
    MergeLora(merge_lora::Args),
    /// List the flags of all commands, and those that have no effect here
    Flags(flags::Args),
    /// Print a script that completes commands and flags in a shell
    Completions(docs::CompletionsArgs),
    /// Print the manual page, or write those of all commands
    Man(docs::ManArgs),
}

/// How a command ended without an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandEnd {
    Done,
    Interrupted,
}

/// Parses, runs, reports.
pub fn main() -> ExitCode {
    // An empty variable is as good as none.
    let empty = std::env::vars_os().filter(|(name, value)| value.is_empty() && is_ours(name));
    empty.for_each(|(name, _)| std::env::remove_var(name));
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| "pumex".into());
    let argv::Rewritten { mut args, warnings, mut notes } = argv::rewrite(args);
    if args.is_empty() && std::io::stdin().is_terminal() {
        return match output::text(help::START) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ExitCode::from(report_error(&error)),
        };
    }
    let mut described = help::arrange_help(Cli::command());
    let set = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    variables::add(&mut args, &mut notes, &mut described, &set.collect::<Vec<_>>());
    let (cli, given) = match parse(&mut described, program, &args) {
        Ok(parsed) => parsed,
        Err(error) => return ExitCode::from(report_usage(&error, args.first())),
    };
    for warning in warnings {
        output::say(format_args!("warning: {warning}\n"));
    }
    for flag in notes.into_iter().chain(idle(&given)) {
        output::say(format_args!("note: {flag}\n"));
    }
    start_log(cli.verbose);
    let stop = signals::flag().inspect(fetch::set_stop_flag);
    let chosen = given.subcommand().and_then(|(name, given)| Some((described.find_subcommand(name)?, given)));
    let taken = chosen.map_or(Ok(()), |(command, given)| files::take(command, given));
    match taken.and(stop).and_then(|stop| dispatch(cli.command, cli.verbose > 0, &stop)) {
        Ok(CommandEnd::Done) => ExitCode::SUCCESS,
        Ok(CommandEnd::Interrupted) => ExitCode::from(signals::STOPPED as u8),
        Err(error) => ExitCode::from(report_error(&error)),
    }
}

/// The command of a command line; of several, where `bench` has lists of what a model is loaded with.
fn parse(
    described: &mut clap::Command,
    program: OsString,
    args: &[OsString],
) -> Result<(Cli, clap::ArgMatches), clap::Error> {
    let mut one = |line: &[OsString]| {
        let given = described.try_get_matches_from_mut(std::iter::once(&program).chain(line))?;
        Ok::<_, clap::Error>((Cli::from_arg_matches(&given)?, given))
    };
    if args.first().is_none_or(|command| command != "bench") {
        return one(args);
    }
    let (lines, listed) = bench::lists::expand(args);
    let mut all = lines.iter().map(|line| one(line)).collect::<Result<Vec<_>, _>>()?;
    let (mut cli, given) = all.remove(0);
    if let Command::Bench(first) = &mut cli.command {
        let further = all.into_iter().filter_map(|(cli, _)| match cli.command {
            Command::Bench(args) => Some(args),
            _ => None,
        });
        (first.further, first.listed) = (further.collect(), listed);
    }
    Ok((cli, given))
}

/// Says what is wrong with a command line, or prints help that it asks for; gives the exit code.
fn report_usage(error: &clap::Error, command: Option<&OsString>) -> u8 {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::UnknownArgument => Some(name.as_str()),
        _ => None,
    };
    let command = command.map(|command| command.to_string_lossy()).unwrap_or_default();
    let refused = unknown.and_then(|name| Some((name, refused_flags::find(&command, name)?)));
    match refused {
        Some((name, why)) => output::say(format_args!("error: {name} is not taken by {command}: {why}\n")),
        // A closed stream leaves nowhere to say it; the code still tells.
        None => drop(error.print()),
    }
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// Says what went wrong; gives the exit code.
fn report_error(error: &Error) -> u8 {
    if output::is_closed_pipe(error) {
        return output::CLOSED_PIPE;
    }
    output::say(format_args!("error: {error}\n"));
    error.exit_code()
}

/// Whether a variable of the environment says something to this program.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    ["LLAMA_", "PUMEX_", "HF_"].iter().any(|start| name.starts_with(start))
}

/// What to say of flags that have no effect.
fn idle(given: &clap::ArgMatches) -> Vec<String> {
    given.subcommand().map_or_else(Vec::new, |(command, given)| no_op_flags::describe_flags(command, given))
}

fn dispatch(command: Command, _verbose: bool, stop: &Arc<AtomicBool>) -> Result<CommandEnd, Error> {
    match command {
        Command::Run(args) => run::main(*args, stop),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::main(*args, _verbose, stop),
        #[cfg(feature = "download")]
        Command::Pull(args) => library::pull(&args),
        #[cfg(feature = "download")]
        Command::List(args) => library::list(&args),
        #[cfg(feature = "download")]
        Command::Show(args) => library::show(&args),
        #[cfg(feature = "download")]
        Command::Rm(args) => library::remove(&args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Tokenize(args) => tokenize::main(&args),
        Command::Template(args) => template::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Devices(args) => devices::main(&args),
        Command::Embed(args) => embed::main(&args, stop),
        Command::Logits(args) => logits::main(&args, stop),
        Command::Perplexity(args) => perplexity::main(&args, stop),
        Command::Bench(mut args) => bench::main(&mut args, stop),
        #[cfg(feature = "serve")]
        Command::BenchServe(args) => bench_serve::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Profile(args) => profile::main(&args, stop),
        Command::Tune(args) => tune::main(&args, stop),
        Command::Imatrix(args) => imatrix::main(&args, stop),
        #[cfg(feature = "convert")]
        Command::Convert(args) => convert::main(&args, stop),
        Command::Quantize(args) => quantize::main(&args, stop),
        Command::Split(args) => quantize::split(&args, stop),
        Command::Merge(args) => quantize::merge(&args, stop),
        Command::MergeLora(args) => merge_lora::main(&args, stop),
        Command::Flags(args) => flags::main(&args),
        Command::Completions(args) => docs::completions(&args),
        Command::Man(args) => docs::man(&args),
    }
}

fn start_log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .with_ansi(colour)
        .log_internal_errors(false)
        .init();
}
