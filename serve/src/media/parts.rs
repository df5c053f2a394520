//! Parts of messages that are media, as OpenAI's API has them, and what other servers add to it.

use super::{BodyMedium, MediumLocation, MediumSource};
use crate::engine::MEDIA_MARK;
use crate::errors::Result;
use crate::fields::Fields;
use serde_json::{json, Value};

/// Most tokens of a picture whose `detail` is low.
const LOW: usize = 256;

/// A part of text that stands where a medium goes.
pub(crate) fn mark() -> Value {
    json!({"type": "text", "text": MEDIA_MARK})
}

/// The medium of a part, if its type is that of one.
///
/// # Errors
/// Media that no model here takes.
pub(crate) fn find_medium<'a>(part: &Fields<'a>) -> Result<Option<BodyMedium<'a>>> {
    let at = || part.pointer("type");
    match part.require_text("type")? {
        "image_url" | "input_image" | "image" => Ok(Some(BodyMedium::picture(at(), picture(part)))),
        "input_audio" | "audio_url" | "audio" => Ok(Some(BodyMedium::sound(at(), sound(part)))),
        "video_url" | "input_video" | "video" => Err(part.refuse("type", "video input is not supported")),
        "file" | "input_file" => Err(part.refuse("type", "file input is not supported")),
        _ => Ok(None),
    }
}

/// A URL that is a text of that name, or stands in an object of it.
fn url<'a>(part: &Fields<'a>, name: &str) -> Result<Option<MediumLocation<'a>>> {
    let (source, field) = match part.value(name) {
        None => return Ok(None),
        Some(Value::String(url)) => (url.as_str(), part.pointer(name)),
        Some(Value::Object(_)) => match part.object(name)? {
            Some(inner) => (inner.require_text("url")?, inner.pointer("url")),
            None => return Ok(None),
        },
        Some(other) => return Err(part.wrong(name, "a URL, or an object with one", other)),
    };
    Ok(Some(MediumLocation { source: MediumSource::Url(source), field, max_tokens: None }))
}

fn picture<'a>(part: &Fields<'a>) -> Result<MediumLocation<'a>> {
    const NAMES: [&str; 3] = ["image_url", "url", "image"];
    if part.value("file_id").is_some() {
        return Err(part.refuse("file_id", "this server keeps no files: send the picture itself"));
    }
    for name in NAMES {
        if let Some(place) = url(part, name)? {
            let inside = part.value(name).filter(|v| v.is_object()).map(|_| part.object(name)).transpose()?.flatten();
            let max_tokens = detail(inside.as_ref().unwrap_or(part))?;
            return Ok(MediumLocation { max_tokens, ..place });
        }
    }
    Err(part.refuse(NAMES[0], "this field is required"))
}

/// How many tokens a picture may take, by the detail that is asked for.
fn detail(fields: &Fields) -> Result<Option<usize>> {
    let words = [("low", Some(LOW)), ("high", None), ("auto", None), ("original", None)];
    Ok(fields.choice("detail", &words)?.flatten())
}

fn sound<'a>(part: &Fields<'a>) -> Result<MediumLocation<'a>> {
    for name in ["input_audio", "audio"] {
        let Some(Value::Object(_)) = part.value(name) else { continue };
        let Some(inner) = part.object(name)? else { continue };
        let forms = [("wav", ()), ("mp3", ()), ("flac", ()), ("ogg", ())];
        inner.choice("format", &forms)?;
        if inner.value("url").is_none() || inner.value("data").is_some() {
            let data = inner.require_text("data")?;
            let is_url = data.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
            let source = if is_url { MediumSource::Url(data) } else { MediumSource::Base64(data) };
            return Ok(MediumLocation { source, field: inner.pointer("data"), max_tokens: None });
        }
    }
    const NAMES: [&str; 4] = ["input_audio", "audio_url", "url", "audio"];
    for name in NAMES {
        if let Some(place) = url(part, name)? {
            return Ok(place);
        }
    }
    Err(part.refuse(NAMES[0], "this field is required"))
}
