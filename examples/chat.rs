//! A conversation on a terminal: `cargo run --release --example chat -- model.gguf` (or `-- -hf user/repo:Q4_K_M`).

use pumex::{Message, Model};
use std::io::{BufRead, Write};

fn main() -> pumex::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let model = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["-hf", repo] => Model::from_hub(repo)?,
        [path] => Model::open(path)?,
        _ => return Err(pumex::Error::Usage("expected: chat MODEL.gguf, or chat -hf USER/REPO[:TYPE]".into())),
    };
    let mut messages = vec![Message::system("Be brief.")];
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        messages.push(Message::user(line));
        let mut answer = model.chat(messages.clone()).max_tokens(512).stream()?;
        for chunk in answer.by_ref() {
            print!("{}", chunk?);
            // A terminal that is gone is no reason to stop.
            let _ = std::io::stdout().flush();
        }
        println!();
        messages.push(Message::assistant(answer.so_far().text.clone()));
    }
    Ok(())
}
