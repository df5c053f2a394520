//! `pumex tokenize`: a text's token ids, with their pieces or alone.

use pumex_gguf::Result;
use pumex_text::Tokenizer;
use serde_json::json;

use super::options::ModelArgs;
use super::prompt_source::PromptArgs;
use super::{output, session, CommandEnd};

/// Options of `tokenize`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    /// Print only the ids, as [1, 2]
    #[arg(long)]
    ids: bool,
    /// Do not put the model's BOS first
    #[arg(long)]
    no_bos: bool,
    /// Read the names of control tokens as plain text
    #[arg(long)]
    no_parse_special: bool,
    /// Read the text from stdin
    #[arg(long, conflicts_with_all = ["prompt", "file"])]
    stdin: bool,
    /// Say how many tokens there are
    #[arg(long, conflicts_with = "json")]
    show_count: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "ids")]
    json: bool,
}

/// Prints the ids.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let text = if args.stdin { read_stdin()? } else { args.prompt.require_text()? };
    let gguf = session::open(&args.model)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let bos = tokenizer.add_bos() && !args.no_bos;
    let mut ids = tokenizer.encode(&text, bos, !args.no_parse_special)?;
    // A text with its beginning has its end, too, where the model is used to one.
    ids.extend(tokenizer.closing().filter(|_| bos));
    let pieces = || ids.iter().map(|&id| tokenizer.decode(&[id]));
    if args.json {
        output::json(&json!({ "count": ids.len(), "ids": ids, "pieces": pieces().collect::<Vec<String>>() }))?;
    } else if args.ids {
        output::text(&format!("{ids:?}\n"))?;
    } else {
        let rows: Vec<Vec<String>> =
            ids.iter().zip(pieces()).map(|(id, piece)| vec![id.to_string(), format!("{piece:?}")]).collect();
        output::text(&output::table(&rows, &[true]))?;
    }
    if args.show_count {
        output::text(&format!("Total number of tokens: {}\n", ids.len()))?;
    }
    Ok(CommandEnd::Done)
}

/// All of stdin, as it is.
fn read_stdin() -> Result<String> {
    let path = std::path::Path::new("stdin");
    std::io::read_to_string(std::io::stdin()).map_err(|e| pumex_gguf::Error::io(path, e))
}
