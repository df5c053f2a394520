//! Prompts and inputs in all the forms that llama.cpp takes: text, ids, both mixed, and lists of these.

use crate::engine::PromptPart;
use crate::errors::Result;
use crate::fields::Fields;
use crate::media::{BodyMedia, BodyMedium};
use crate::options;
use serde_json::Value;

/// Prompts of one request.
const PROMPTS: usize = 1024;

/// The prompts that a field holds.
pub(crate) struct Prompts<'a> {
    pub list: Vec<One<'a>>,
    /// Whether they came as a list, so that the answer is one too.
    pub listed: bool,
}

/// A prompt, and the media that stand in it where their marks are.
pub(crate) type One<'a> = (Vec<PromptPart>, BodyMedia<'a>);

/// Reads a field of texts and ids alone.
///
/// # Errors
/// As [`read`]; media.
pub(crate) fn texts(fields: &Fields, name: &str) -> Result<Vec<Vec<PromptPart>>> {
    let each = read(fields, name)?.list.into_iter();
    each.map(|(parts, media)| media.refuse("only text can stand here").map(|()| parts)).collect()
}

/// Reads a field: a string, a list of ids, a mixed list, a list of all these, or an object with `prompt_string`.
///
/// # Errors
/// Another form; none at all.
pub(crate) fn read<'a>(fields: &Fields<'a>, name: &str) -> Result<Prompts<'a>> {
    let value = fields.require(name)?;
    let Value::Array(items) = value else {
        return Ok(Prompts { list: vec![one(fields, name, value)?], listed: false });
    };
    // Among prompts there are no numbers, so that one is an id, or is meant to be.
    let is_flat = !items.iter().any(|item| item.is_array() || item.is_object());
    if is_flat && items.iter().any(Value::is_number) {
        return Ok(Prompts { list: vec![one(fields, name, value)?], listed: false });
    }
    if items.is_empty() || items.len() > PROMPTS {
        return Err(fields.refuse(name, format!("expected 1 to {PROMPTS} prompts, found {}", items.len())));
    }
    let each = items.iter().enumerate().map(|(i, item)| one(fields, &format!("{name}/{i}"), item));
    Ok(Prompts { list: each.collect::<Result<_>>()?, listed: true })
}

/// One prompt.
fn one<'a>(fields: &Fields<'a>, name: &str, value: &'a Value) -> Result<One<'a>> {
    let mut media = BodyMedia::default();
    let parts = parts(fields, name, value, &mut media)?;
    Ok((parts, media))
}

fn parts<'a>(fields: &Fields<'a>, name: &str, value: &'a Value, media: &mut BodyMedia<'a>) -> Result<Vec<PromptPart>> {
    let expected = "a string, a list of ids and strings, or an object with prompt_string";
    match value {
        Value::String(text) => Ok(vec![PromptPart::Text(text.clone())]),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .map(|(i, item)| match item {
                Value::String(text) => Ok(PromptPart::Text(text.clone())),
                other => options::id(other)
                    .map(PromptPart::Token)
                    .ok_or_else(|| fields.wrong(&format!("{name}/{i}"), "an id or a string", other)),
            })
            .collect(),
        Value::Object(map) => {
            let given = map.get("multimodal_data").filter(|given| !given.is_null());
            let Some(data) = given.map_or(Some(&[][..]), |given| given.as_array().map(Vec::as_slice)) else {
                return Err(fields.wrong(&format!("{name}/multimodal_data"), "a list", &map["multimodal_data"]));
            };
            for (i, data) in data.iter().enumerate() {
                let at = format!("{name}/multimodal_data/{i}");
                let data_of = data.as_str().ok_or_else(|| fields.wrong(&at, "base64", data))?;
                media.add(BodyMedium::either("media", fields.pointer(name), fields.pointer(&at), data_of));
            }
            match (map.get("prompt_string"), map.get("content")) {
                (Some(Value::String(text)), _) => Ok(vec![PromptPart::Text(text.clone())]),
                (None, Some(Value::Array(parts))) => {
                    let text = |(i, part): (usize, &Value)| match (part["type"].as_str(), part["text"].as_str()) {
                        (Some("text"), Some(text)) => Ok(PromptPart::Text(text.to_string())),
                        _ => Err(fields.refuse(&format!("{name}/content/{i}"), "expected a part of text")),
                    };
                    parts.iter().enumerate().map(text).collect()
                }
                _ => Err(fields.wrong(name, expected, value)),
            }
        }
        other => Err(fields.wrong(name, expected, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prompts_are_read_in_all_their_forms() {
        let text = |t: &str| PromptPart::Text(t.into());
        let (a, b) = (vec![text("a")], vec![text("b")]);
        let table = [
            (json!("a"), vec![a.clone()], false),
            (json!([1, 2]), vec![vec![PromptPart::Token(1), PromptPart::Token(2)]], false),
            (json!([1, "a"]), vec![vec![PromptPart::Token(1), text("a")]], false),
            (json!(["a", "b"]), vec![a.clone(), b.clone()], true),
            (json!(["a"]), vec![a.clone()], true),
            (
                json!([[1], "a", ["b", 3]]),
                vec![vec![PromptPart::Token(1)], a.clone(), vec![text("b"), PromptPart::Token(3)]],
                true,
            ),
            (json!({"prompt_string": "a"}), vec![a.clone()], false),
            (json!([{"prompt_string": "a"}, {"content": [{"type": "text", "text": "b"}]}]), vec![a, b], true),
        ];
        for (value, list, listed) in table {
            let body = json!({ "p": value });
            let fields = Fields::of(&body).unwrap();
            assert_eq!((texts(&fields, "p").unwrap(), read(&fields, "p").unwrap().listed), (list, listed), "{body}");
        }
        for (bad, field) in
            [(json!([1, -2]), "p/1"), (json!(["a", 2.5, "b"]), "p/1"), (json!([[1, "a"], [3, -1]]), "p/1/1")]
        {
            let body = json!({ "p": bad });
            let fault = texts(&Fields::of(&body).unwrap(), "p").unwrap_err();
            assert_eq!(fault.refusal.field.as_deref(), Some(field), "{body}");
        }
        for bad in [json!([]), json!(1), json!(true), json!({}), json!([[]]), json!([-1]), json!([1.5]), json!([null])]
        {
            let body = json!({ "p": bad });
            assert!(read(&Fields::of(&body).unwrap(), "p").is_err(), "{body}");
        }
    }
}
