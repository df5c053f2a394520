//! Blocks that are text: texts, documents and results of searches; and images, for which a mark stands in it.

use crate::engine::MEDIA_MARK;
use crate::errors::Result;
use crate::fields::Fields;
use crate::media::{BodyMedia, BodyMedium, MediumLocation, MediumSource};
use serde_json::Value;

/// A block's text.
///
/// # Errors
/// Files, and whatever else is none.
pub(super) fn text<'a>(block: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<String> {
    match block.require_text("type")? {
        "text" => Ok(block.require_text("text")?.to_string()),
        "document" => document(block, media),
        "search_result" => {
            let (source, title) = (block.require_text("source")?, block.require_text("title")?);
            let content = parts(block, "content", media)?;
            Ok(frame_document("search_result", &[("title", Some(title)), ("source", Some(source))], &content))
        }
        "image" => Ok(image(block, media)),
        kind @ "container_upload" => Err(block.refuse("type", format!("{kind} input is not supported"))),
        other => Err(block.refuse("type", format!("a block of the type {other:?} cannot stand here"))),
    }
}

/// The mark of an image, which is found.
fn image<'a>(block: &Fields<'a>, media: &mut BodyMedia<'a>) -> String {
    media.add(BodyMedium::picture(block.pointer("type"), place(block)));
    MEDIA_MARK.to_string()
}

/// What stands between texts of blocks that become one.
const BETWEEN: &str = "\n\n";

/// Texts of blocks as one. Beside the mark of an image nothing stands between.
pub(super) fn join_texts(texts: &[String]) -> String {
    let mut whole = String::new();
    let mut behind_mark = true;
    for text in texts {
        let is_mark = text == MEDIA_MARK;
        if !is_mark && !behind_mark {
            whole.push_str(BETWEEN);
        }
        whole.push_str(text);
        behind_mark = is_mark;
    }
    whole
}

/// Where an image is: here, or at a URL.
fn place<'a>(block: &Fields<'a>) -> Result<MediumLocation<'a>> {
    let source = block.object("source")?.ok_or_else(|| block.refuse("source", "this field is required"))?;
    let (name, source_of): (_, fn(&'a str) -> MediumSource<'a>) = match source.require_text("type")? {
        "base64" => {
            let kind = source.require_text("media_type")?;
            if !kind.starts_with("image/") {
                let text = format!("expected a type that begins with image/, found {kind:.100}");
                return Err(source.refuse("media_type", text));
            }
            ("data", MediumSource::Base64)
        }
        "url" => ("url", MediumSource::Url),
        other => {
            let text = format!("expected base64 or url, found {other:?}: this server keeps no files");
            return Err(source.refuse("type", text));
        }
    };
    let source_of = source_of(source.require_text(name)?);
    Ok(MediumLocation { source: source_of, field: source.pointer(name), max_tokens: None })
}

/// A document whose source is text.
fn document<'a>(block: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<String> {
    let source = block.object("source")?.ok_or_else(|| block.refuse("source", "this field is required"))?;
    let body = match source.require_text("type")? {
        "text" => source.require_text("data")?.to_string(),
        "content" => parts(&source, "content", media)?,
        other => {
            let text = format!("expected text or content, found {other:?}: this server reads no files");
            return Err(source.refuse("type", text));
        }
    };
    Ok(frame_document("document", &[("title", block.text("title")?), ("context", block.text("context")?)], &body))
}

/// A string, or blocks of text and images.
fn parts<'a>(block: &Fields<'a>, name: &str, media: &mut BodyMedia<'a>) -> Result<String> {
    match block.require(name)? {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) => {
            let blocks = block.objects(name)?;
            let texts = blocks.iter().map(|part| match part.require_text("type")? {
                "text" => Ok(part.require_text("text")?.to_string()),
                "image" => Ok(image(part, media)),
                other => Err(part.refuse("type", format!("a block of the type {other:?} cannot stand here"))),
            });
            Ok(join_texts(&texts.collect::<Result<Vec<String>>>()?))
        }
        other => Err(block.wrong(name, "a string or a list of blocks", other)),
    }
}

/// Text between marks that tell a model where it begins and ends, and what is known of it.
fn frame_document(kind: &str, known: &[(&str, Option<&str>)], body: &str) -> String {
    let known: String = known.iter().filter_map(|(n, v)| Some(format!("<{n}>{}</{n}>\n", (*v)?))).collect();
    format!("<{kind}>\n{known}{body}\n</{kind}>")
}
