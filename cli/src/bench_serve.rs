//! `pumex bench-serve`: load on a server that speaks OpenAI's API.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use pumex_gguf::{Error, Result};
use pumex_serve::bench::{self, Arrivals, Goals, Load, Prompts};

use super::{files, output, CommandEnd};

/// Options of `bench-serve`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The model to name in requests
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The server's key
    #[arg(long, value_name = "KEY", env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Ask for completions of text instead of chats
    #[arg(long)]
    completions: bool,
    /// Requests in all
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Users, each of which asks when its last answer is over
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// Requests a second at random times, instead of users
    #[arg(long, value_name = "RATE", conflicts_with = "users")]
    rate: Option<f64>,
    /// Prompts, one a line: text, or JSON with prompt or text
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_length", "input_spread", "shared_length"])]
    prompts: Option<PathBuf>,
    /// Words of prompts that are made up; most are a token
    #[arg(long, value_name = "N", default_value_t = 512)]
    input_length: u32,
    /// Share by which their lengths differ, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    input_spread: f64,
    /// Words at their start that are the same in all
    #[arg(long, value_name = "N", default_value_t = 0)]
    shared_length: u32,
    /// Most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 256)]
    output_length: u32,
    /// Answers may end early; otherwise the server is asked to ignore their end
    #[arg(long)]
    heed_eos: bool,
    /// Seed of prompts and times
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A request is good if its first token comes within so many milliseconds,
    #[arg(long, value_name = "MS")]
    goal_first_token: Option<f64>,
    /// its tokens come within so many of each other on average,
    #[arg(long, value_name = "MS")]
    goal_between_tokens: Option<f64>,
    /// and it is over within so many
    #[arg(long, value_name = "MS")]
    goal_request: Option<f64>,
    /// Most seconds of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a picture (SVG) to a file
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Sends the load and prints the report.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let prompts = match &args.prompts {
        Some(path) => Prompts::of_file(path).map_err(to_cli_error)?,
        None => Prompts::Words {
            length: args.input_length as usize,
            spread: args.input_spread,
            shared: args.shared_length as usize,
        },
    };
    let load = Load {
        url: args.url.clone(),
        chat: !args.completions,
        model: args.model.clone(),
        key: args.api_key.clone(),
        requests: args.requests as usize,
        arrivals: args.rate.map_or(Arrivals::Users(args.users as usize), Arrivals::Rate),
        prompts,
        output_tokens: args.output_length as usize,
        ignore_eos: !args.heed_eos,
        seed: args.seed,
        goals: Goals {
            first_token: args.goal_first_token,
            between_tokens: args.goal_between_tokens,
            whole: args.goal_request,
        },
        timeout: Duration::from_secs(args.timeout),
    };
    let shows = std::io::stderr().is_terminal();
    let report = bench::run(&load, |done| {
        if shows {
            output::say(format_args!("\r{done} of {} requests", load.requests));
        }
    });
    if shows {
        output::say(format_args!("\n"));
    }
    let report = report.map_err(to_cli_error)?;
    if let Some(path) = &args.picture {
        let mut file = files::create(path)?;
        file.write(report.picture().as_bytes())?;
        file.finish()?;
    }
    match args.json {
        true => output::json(&report.json())?,
        false => output::text(&report.table())?,
    }
    Ok(CommandEnd::Done)
}

fn to_cli_error(error: bench::Error) -> Error {
    Error::Request(error.to_string())
}
