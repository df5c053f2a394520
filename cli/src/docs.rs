//! `pumex completions` and `pumex man`: what other programs show of the command line, made of its own description.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use pumex_gguf::{Error, Result};

use super::argv::COMMON;
use super::{files, help, output, Cli, CommandEnd};

/// Options of `completions`.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell that is to read it
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Options of `man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Write pumex.1, and a page for each command, to this folder (-o)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints a shell's script.
pub fn completions(args: &CompletionsArgs) -> Result<CommandEnd> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pumex", &mut script);
    output::text(&with_aliases(&String::from_utf8_lossy(&script), args.shell))?;
    Ok(CommandEnd::Done)
}

/// Prints the page, or writes all of them.
pub fn man(args: &ManArgs) -> Result<CommandEnd> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        render_page(help::arrange_help(Cli::command()), &mut page).map_err(|e| Error::io("stdout".as_ref(), e))?;
        output::text(&String::from_utf8_lossy(&page))?;
        return Ok(CommandEnd::Done);
    };
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let mut command = help::arrange_help(Cli::command()).disable_help_subcommand(true);
    command.build();
    pages(command, folder)?;
    Ok(CommandEnd::Done)
}

/// Writes the page of a command and those of its own ones.
fn pages(command: clap::Command, folder: &Path) -> Result<()> {
    let own: Vec<clap::Command> = command.get_subcommands().filter(|own| !own.is_hide_set()).cloned().collect();
    own.into_iter().try_for_each(|own| pages(own, folder))?;
    let name = clap_mangen::Man::new(command.clone()).get_filename();
    let (path, mut page) = (folder.join(name), Vec::new());
    render_page(command, &mut page).map_err(|e| Error::io(&path, e))?;
    let mut out = files::create(&path)?;
    out.write(&page)?;
    out.finish()
}

/// A page, with examples, variables of the environment and exit codes.
fn render_page(command: clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let lines = help::examples(command.get_name());
    let variables: Vec<(String, String)> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| Some((arg.get_env()?.to_str()?.to_string(), format!("--{}", arg.get_long()?))))
        .collect();
    let (has_own, has_version) = (command.has_subcommands(), command.get_version().is_some());
    let man = clap_mangen::Man::new(command.after_help(""));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if has_own {
        man.render_subcommands_section(page)?;
    }
    let mut text = String::new();
    let escaped = |line: &str| line.replace('\\', "\\\\").replace('-', "\\-");
    if let Some(lines) = lines {
        text += ".SH EXAMPLES\n";
        lines.iter().for_each(|line| text += &format!(".PP\n.nf\n{}\n.fi\n", escaped(line)));
    }
    text += ".SH ENVIRONMENT\n";
    let own =
        variables.iter().map(|(name, flag)| (name.as_str(), format!("Stands for {flag} where that is not given.")));
    let others = VARIABLES.iter().map(|(name, what)| (*name, (*what).to_string()));
    own.chain(others).for_each(|(name, what)| text += &format!(".TP\n\\fB{name}\\fR\n{}\n", escaped(&what)));
    text += ".SH \"EXIT STATUS\"\n";
    help::CODES.iter().for_each(|(code, what)| text += &format!(".TP\n\\fB{code}\\fR\n{}\n", escaped(what)));
    page.extend(text.bytes());
    if has_version {
        man.render_version_section(page)?;
    }
    Ok(())
}

/// Variables that are no flag's.
const VARIABLES: &[(&str, &str)] = &[
    ("LLAMA_ARG_MODEL, LLAMA_ARG_HF_REPO, LLAMA_ARG_MODEL_URL", "The model where no flag names one."),
    ("HF_HUB_CACHE, HF_HOME, LLAMA_CACHE", "The folder of models that are downloaded."),
    ("HF_TOKEN", "The token of the Hugging Face Hub."),
    ("HF_ENDPOINT, PUMEX_MODELSCOPE, PUMEX_OLLAMA", "The hosts that models are downloaded from."),
    ("XDG_CACHE_HOME", "The folder of what is learnt of devices; else ~/.cache."),
    ("RUST_LOG", "What the log tells, in place of --verbose."),
    ("NO_COLOR", "No colours on a terminal."),
];

/// Flags of llama.cpp that clap does not know, of more letters than one, with their long names.
fn aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    let short = |name: &&&str| name.len() > 2 && !name.starts_with("--");
    COMMON.iter().flat_map(move |(names, long, _)| names.iter().filter(short).map(|name| (*name, *long)))
}

/// What a script says, a piece for each line; in fish, for each command, as one that lists values goes over several lines.
fn pieces(script: &str, shell: Shell) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for line in script.lines() {
        match pieces.last_mut() {
            Some(piece) if shell == Shell::Fish && piece.starts_with("complete ") && !line.starts_with("complete ") => {
                piece.push('\n');
                piece.push_str(line);
            }
            _ => pieces.push(line.to_string()),
        }
    }
    pieces
}

/// The script with a line for each alias beside that of its long name, or, where a line has many, a word.
fn with_aliases(script: &str, shell: Shell) -> String {
    let mut out = String::with_capacity(2 * script.len());
    for mut line in pieces(script, shell) {
        let mut beside = Vec::new();
        for (alias, long) in aliases() {
            let word = &long[2..];
            match shell {
                Shell::Bash if line.trim_start().starts_with("opts=") => {
                    line = line.replace(&format!(" {long} "), &format!(" {long} {alias} "));
                }
                Shell::Bash if line.trim() == format!("{long})") => {
                    line = line.replace(long, &format!("{long}|{alias}"))
                }
                Shell::Zsh => {
                    for (from, to) in
                        [(format!("'{long}="), format!("'{alias}+")), (format!("'{long}["), format!("'{alias}["))]
                    {
                        if line.contains(&from) {
                            beside.push(line.replace(&from, &to));
                        }
                    }
                }
                Shell::Fish if line.contains(&format!(" -l {word} ")) => {
                    beside.push(line.replace(&format!(" -l {word} "), &format!(" -o {} ", &alias[1..])));
                }
                Shell::PowerShell if line.contains(&format!("'{long}'")) => {
                    beside.push(line.replace(&format!("'{long}'"), &format!("'{alias}'")));
                }
                Shell::Elvish if line.contains(&format!("cand {long} ")) => {
                    beside.push(line.replace(&format!("cand {long} "), &format!("cand {alias} ")));
                }
                _ => {}
            }
        }
        for line in std::iter::once(line).chain(beside) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}
