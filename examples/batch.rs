//! Several prompts at once, whose rows share steps: `cargo run --release --example batch -- model.gguf "One" "Two" "Three"`.

use pumex::{Answer, Error, Model, Result};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or_else(|| Error::Usage("expected: batch MODEL.gguf PROMPT...".into()))?;
    let prompts: Vec<String> = args.collect();
    let model = Model::options().parallel(prompts.len()).open(path)?;
    // All of them are under way before the first one is read.
    let ask = |prompt: &String| model.generate(prompt).max_tokens(32).temperature(0.0).stream();
    let answers: Vec<Answer> = prompts.iter().map(ask).collect::<Result<_>>()?;
    for (prompt, answer) in prompts.iter().zip(answers) {
        let reply = answer.reply()?;
        println!("{prompt}{reply}\n  ({} tokens, {:?})", reply.completion_tokens, reply.finish);
    }
    Ok(())
}
