//! Answers as JSON of a schema: `cargo run --release --example structured -- model.gguf "A pumice floats on water."`.

use pumex::{Error, Model, Result};
use serde_json::{json, Value};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, text] = &args[..] else { return Err(Error::Usage("expected: structured MODEL.gguf TEXT".into())) };
    let schema = json!({
        "type": "object",
        "properties": {
            "subject": {"type": "string", "maxLength": 40},
            "is_about": {"enum": ["stones", "animals", "something else"]},
        },
        "required": ["subject", "is_about"],
        "additionalProperties": false,
    });
    let model = Model::open(path)?;
    let question = format!("What is this text about? Answer in JSON.\n\n{text}");
    let answer = model.chat([question.as_str()]).json_schema(schema).max_tokens(200).text()?;
    let value: Value = serde_json::from_str(&answer).map_err(|e| Error::Request(format!("{answer}: {e}")))?;
    println!("subject: {}\nabout: {}", value["subject"], value["is_about"]);
    Ok(())
}
