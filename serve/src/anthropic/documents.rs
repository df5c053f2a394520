//! Blocks that are text: texts, documents and results of searches.

use crate::errors::Result;
use crate::fields::Fields;
use serde_json::Value;

/// A block's text.
///
/// # Errors
/// Images, files, and whatever else is none.
pub(super) fn text(block: &Fields) -> Result<String> {
    match block.required_text("type")? {
        "text" => Ok(block.required_text("text")?.to_string()),
        "document" => document(block),
        "search_result" => {
            let (source, title) = (block.required_text("source")?, block.required_text("title")?);
            Ok(framed("search_result", &[("title", Some(title)), ("source", Some(source))], &parts(block, "content")?))
        }
        "image" => Err(block.refuse("type", "image input is not supported - this model reads text only")),
        kind @ "container_upload" => Err(block.refuse("type", format!("{kind} input is not supported"))),
        other => Err(block.refuse("type", format!("a block of the type {other:?} cannot stand here"))),
    }
}

/// A document whose source is text.
fn document(block: &Fields) -> Result<String> {
    let source = block.object("source")?.ok_or_else(|| block.refuse("source", "this field is required"))?;
    let body = match source.required_text("type")? {
        "text" => source.required_text("data")?.to_string(),
        "content" => parts(&source, "content")?,
        other => {
            let text = format!("expected text or content, found {other:?}: this server reads no files");
            return Err(source.refuse("type", text));
        }
    };
    Ok(framed("document", &[("title", block.text("title")?), ("context", block.text("context")?)], &body))
}

/// A string, or blocks of text.
fn parts(block: &Fields, name: &str) -> Result<String> {
    match block.required(name)? {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) => {
            let blocks = block.objects(name)?;
            let texts = blocks.iter().map(|part| match part.required_text("type")? {
                "text" => Ok(part.required_text("text")?.to_string()),
                "image" => Err(part.refuse("type", "image input is not supported - this model reads text only")),
                other => Err(part.refuse("type", format!("a block of the type {other:?} cannot stand here"))),
            });
            Ok(texts.collect::<Result<Vec<String>>>()?.join("\n\n"))
        }
        other => Err(block.wrong(name, "a string or a list of blocks", other)),
    }
}

/// Text between marks that tell a model where it begins and ends, and what is known of it.
fn framed(kind: &str, known: &[(&str, Option<&str>)], body: &str) -> String {
    let known: String = known.iter().filter_map(|(n, v)| Some(format!("<{n}>{}</{n}>\n", (*v)?))).collect();
    format!("<{kind}>\n{known}{body}\n</{kind}>")
}
