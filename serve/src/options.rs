//! Options that every endpoint reads alike: how ids are chosen, what ends an answer, what it is within.

mod constraint;

pub(crate) use constraint::{response_format, schema};

use crate::engine::{Generate, Priority, PromptPart, Sampling};
use crate::errors::Result;
use crate::fields::Fields;
use crate::http::Caller;
use serde_json::Value;

/// Texts that end an answer, and their bytes.
const STOPS: usize = 64;
const STOP_BYTES: usize = 1024;
/// Tokens with a bias.
const BIASES: usize = 1024;
/// Answers to one prompt; the engine may take fewer.
const ANSWERS: usize = 128;
/// Tokens told at a position.
pub(crate) const TOP: usize = 1000;
/// A bound of counts that only keeps them within their types.
const MANY: usize = i32::MAX as usize;

/// Reads all of them into a request.
///
/// # Errors
/// A field of a wrong type or range.
pub(crate) fn read(fields: &Fields, caller: &Caller, request: &mut Generate) -> Result<()> {
    request.sampling = sampling(fields)?;
    request.n = answers(fields)?;
    request.max_tokens = max_tokens(fields, &["n_predict", "max_completion_tokens", "max_tokens"])?;
    request.max_predict_ms =
        fields.integer("t_max_predict_ms", -1..=i64::MAX)?.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0);
    request.stop = stop(fields, "stop")?;
    request.min_tokens = fields.count("min_tokens", 0..=MANY)?.unwrap_or(0);
    request.stop_ids = stop_ids(fields)?;
    if let Some((field, constraint)) = constraint::read(fields)? {
        (request.constraint, request.constraint_field) = (Some(constraint), field);
    }
    request.post_sampling_probs = fields.boolean("post_sampling_probs")?.unwrap_or(false);
    request.slot = slot(fields)?;
    request.cache_prompt = fields.boolean("cache_prompt")?.unwrap_or(true);
    request.deterministic = fields.boolean("deterministic")?;
    request.n_keep = fields.integer("n_keep", -1..=i64::from(i32::MAX))?.unwrap_or(0);
    request.n_discard = fields.count("n_discard", 0..=i32::MAX as usize)?.unwrap_or(0);
    request.adapters = adapters(fields)?;
    request.priority = priority(fields)?;
    request.progress = fields.boolean("return_progress")?.unwrap_or(false);
    request.user = user(fields, caller)?;
    Ok(())
}

/// The options of the sampler.
pub(crate) fn sampling(fields: &Fields) -> Result<Sampling> {
    let small = |name: &str| {
        Ok::<_, crate::errors::RequestFault>(fields.integer(name, -1..=i64::from(i32::MAX))?.map(|n| n as i32))
    };
    Ok(Sampling {
        temperature: fields.number("temperature")?,
        dynatemp_range: fields.number("dynatemp_range")?,
        dynatemp_exponent: fields.number("dynatemp_exponent")?,
        top_k: fields.integer("top_k", i64::from(i32::MIN)..=i64::from(i32::MAX))?.map(|n| n as i32),
        top_p: fields.number("top_p")?,
        min_p: fields.number("min_p")?,
        top_n_sigma: fields.number("top_n_sigma")?,
        typical_p: either(fields.number("typical_p")?, fields.number("typ_p")?),
        xtc_probability: fields.number("xtc_probability")?,
        xtc_threshold: fields.number("xtc_threshold")?,
        repeat_penalty: either(fields.number("repeat_penalty")?, fields.number("repetition_penalty")?),
        repeat_last_n: small("repeat_last_n")?,
        presence_penalty: fields.number("presence_penalty")?,
        frequency_penalty: fields.number("frequency_penalty")?,
        dry_multiplier: fields.number("dry_multiplier")?,
        dry_base: fields.number("dry_base")?,
        dry_allowed_length: small("dry_allowed_length")?,
        dry_penalty_last_n: small("dry_penalty_last_n")?,
        dry_sequence_breakers: fields
            .value("dry_sequence_breakers")
            .map(|_| fields.texts("dry_sequence_breakers"))
            .transpose()?,
        mirostat: fields.integer("mirostat", 0..=2)?.map(|n| n as u8),
        mirostat_tau: fields.number("mirostat_tau")?,
        mirostat_eta: fields.number("mirostat_eta")?,
        adaptive_target: fields.number("adaptive_target")?,
        adaptive_decay: fields.number("adaptive_decay")?,
        min_keep: fields.count("min_keep", 0..=MANY)?,
        seed: seed(fields)?,
        samplers: fields.value("samplers").map(|_| fields.texts("samplers")).transpose()?,
        logit_bias: logit_bias(fields)?,
        ignore_eos: fields.boolean("ignore_eos")?,
    })
}

/// A seed of up to 64 bits; a negative one is of the clock.
fn seed(fields: &Fields) -> Result<Option<i64>> {
    const NAME: &str = "seed";
    match fields.value(NAME) {
        Some(Value::Number(n)) if n.is_u64() => Ok(n.as_u64().map(|n| (n & i64::MAX as u64) as i64)),
        _ => fields.integer(NAME, i64::MIN..=i64::MAX),
    }
}

fn either<T>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.or(b)
}

/// The first of these names that is there; -1 is no limit.
pub(crate) fn max_tokens(fields: &Fields, names: &[&str]) -> Result<Option<usize>> {
    for name in names {
        if let Some(n) = fields.integer(name, -1..=i64::from(i32::MAX))? {
            return Ok(usize::try_from(n).ok());
        }
    }
    Ok(None)
}

fn answers(fields: &Fields) -> Result<usize> {
    Ok(fields.count("n", 1..=ANSWERS)?.or(fields.count("n_cmpl", 1..=ANSWERS)?).unwrap_or(1))
}

/// Texts that end an answer.
pub(crate) fn stop(fields: &Fields, name: &str) -> Result<Vec<String>> {
    let mut stop = fields.texts(name)?;
    stop.retain(|s| !s.is_empty());
    if stop.len() > STOPS {
        return Err(fields.refuse(name, format!("expected at most {STOPS} texts, found {}", stop.len())));
    }
    match stop.iter().map(String::len).find(|n| *n > STOP_BYTES) {
        Some(n) => Err(fields.refuse(name, format!("expected texts of at most {STOP_BYTES} bytes, found one of {n}"))),
        None => Ok(stop),
    }
}

/// Ids that end an answer.
fn stop_ids(fields: &Fields) -> Result<Vec<u32>> {
    const NAME: &str = "stop_token_ids";
    let listed = fields.list(NAME)?.unwrap_or_default();
    if listed.len() > STOPS {
        return Err(fields.refuse(NAME, format!("expected at most {STOPS} ids, found {}", listed.len())));
    }
    let each = listed.iter().enumerate();
    each.map(|(i, v)| id(v).ok_or_else(|| fields.wrong(&format!("{NAME}/{i}"), "an id of a token", v))).collect()
}

fn slot(fields: &Fields) -> Result<Option<usize>> {
    Ok(fields.integer("id_slot", -1..=i64::from(i32::MAX))?.and_then(|n| usize::try_from(n).ok()))
}

fn adapters(fields: &Fields) -> Result<Option<Vec<(usize, f32)>>> {
    if fields.value("lora").is_none() {
        return Ok(None);
    }
    let each = fields.objects("lora")?.into_iter().map(|a| {
        let id = a.count("id", 0..=MANY)?.ok_or_else(|| a.refuse("id", "this field is required"))?;
        Ok((id, a.number("scale")?.unwrap_or(1.0)))
    });
    each.collect::<Result<_>>().map(Some)
}

/// A word, or a number as vLLM has it, of which lower ones go first.
fn priority(fields: &Fields) -> Result<Priority> {
    if let Some(number) = fields.value("priority").and_then(Value::as_i64) {
        return Ok(match number {
            ..0 => Priority::High,
            0 => Priority::Normal,
            _ => Priority::Low,
        });
    }
    let words = [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];
    Ok(fields.choice("priority", &words)?.unwrap_or_default())
}

/// Whose request it is: the key's holder's, and of those the user's that the request names.
pub(crate) fn user(fields: &Fields, caller: &Caller) -> Result<Option<String>> {
    let named = fields.text("user")?;
    Ok(match (caller.key, named) {
        (Some(key), Some(name)) => Some(format!("{key}/{name}")),
        (Some(key), None) => Some(key.to_string()),
        (None, name) => name.map(|n| format!("/{n}")),
    })
}

/// Biases: an object, or a list of pairs of an id or a text and a number; false bans.
fn logit_bias(fields: &Fields) -> Result<Vec<(PromptPart, f32)>> {
    const NAME: &str = "logit_bias";
    let Some(value) = fields.value(NAME) else { return Ok(Vec::new()) };
    let bias = |at: &str, v: &Value| match v {
        Value::Bool(false) => Ok(f32::NEG_INFINITY),
        v => v
            .as_f64()
            .map(|f| f as f32)
            .filter(|f| f.is_finite())
            .ok_or_else(|| fields.wrong(at, "a number or false", v)),
    };
    let token = |at: &str, v: &Value| match v {
        Value::String(s) => Ok(PromptPart::Text(s.clone())),
        v => id(v).map(PromptPart::Token).ok_or_else(|| fields.wrong(at, "an id or a string", v)),
    };
    let list: Vec<(PromptPart, f32)> = match value {
        Value::Object(map) => {
            let part = |key: &String| key.parse().map_or_else(|_| PromptPart::Text(key.clone()), PromptPart::Token);
            map.iter().map(|(key, v)| Ok((part(key), bias(&format!("{NAME}/{key}"), v)?))).collect::<Result<_>>()?
        }
        Value::Array(items) => {
            let pair = |(i, item): (usize, &Value)| match item.as_array().map(Vec::as_slice) {
                Some([t, b]) => Ok((token(&format!("{NAME}/{i}/0"), t)?, bias(&format!("{NAME}/{i}/1"), b)?)),
                _ => Err(fields.wrong(&format!("{NAME}/{i}"), "a pair of an id or string and a number", item)),
            };
            items.iter().enumerate().map(pair).collect::<Result<_>>()?
        }
        other => return Err(fields.wrong(NAME, "an object or a list of pairs", other)),
    };
    match list.len() > BIASES {
        true => Err(fields.refuse(NAME, format!("expected at most {BIASES} tokens, found {}", list.len()))),
        false => Ok(list),
    }
}

/// An id of a token.
pub(crate) fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Constraint;
    use serde_json::json;

    fn read_all(body: &Value) -> Result<Generate> {
        let mut request = Generate::new(crate::engine::Prompt::Parts(vec![]));
        let caller = Caller { peer: None, key: None };
        read(&Fields::of(body)?, &caller, &mut request)?;
        Ok(request)
    }

    #[test]
    fn every_option_reaches_the_engine() {
        let request = read_all(&json!({
            "temperature": 0.5, "top_k": 7, "seed": -1, "stop": "x", "max_tokens": 5, "n": 2, "id_slot": -1, "cache_prompt": false,
            "deterministic": true,
            "logit_bias": {"5": 1, "cat": false}, "lora": [{"id": 1, "scale": 0.5}], "priority": -3, "user": "me", "json_schema": {},
            "t_max_predict_ms": 0, "samplers": ["top_k"], "response_format": {"type": "text"},
        }))
        .unwrap();
        assert_eq!(
            (request.sampling.temperature, request.sampling.top_k, request.sampling.seed),
            (Some(0.5), Some(7), Some(-1))
        );
        assert_eq!((request.max_tokens, request.n, request.slot, request.cache_prompt), (Some(5), 2, None, false));
        assert_eq!(request.deterministic, Some(true));
        let bias = [(PromptPart::Token(5), 1.0), (PromptPart::Text("cat".into()), f32::NEG_INFINITY)];
        assert_eq!(request.sampling.logit_bias, bias);
        assert_eq!((request.adapters, request.priority), (Some(vec![(1, 0.5)]), Priority::High));
        assert_eq!((request.user.as_deref(), request.stop), (Some("/me"), vec!["x".to_string()]));
        assert_eq!((request.constraint, request.max_predict_ms), (Some(Constraint::Schema(json!({}))), None));
    }

    #[test]
    fn what_answers_are_within_has_the_names_of_several_servers() {
        let of = |body: Value| {
            let request = read_all(&body).unwrap();
            (request.constraint_field, request.constraint.unwrap())
        };
        let (object, list) = (json!({"type": "object"}), json!(["a\"", "b\n"]));
        let choice = Constraint::Grammar("root ::= \"a\\\"\" | \"b\\n\"".into());
        let schema = Constraint::Schema(object.clone());
        let regex = Constraint::Regex("a+".into());
        assert_eq!(of(json!({ "guided_choice": list })), ("guided_choice", choice.clone()));
        assert_eq!(of(json!({"structured_outputs": {"choice": list}})), ("structured_outputs", choice));
        assert_eq!(of(json!({ "guided_json": object })), ("guided_json", schema.clone()));
        assert_eq!(of(json!({"guided_json": object.to_string()})), ("guided_json", schema.clone()));
        assert_eq!(of(json!({"structured_outputs": {"json": object}})), ("structured_outputs", schema));
        assert_eq!(of(json!({"structured_outputs": {"json_object": true}})).1, Constraint::JsonObject);
        assert_eq!(of(json!({"regex": "a+"})), ("regex", regex.clone()));
        assert_eq!(of(json!({"guided_regex": "a+"})), ("guided_regex", regex));
        let gbnf = Constraint::Grammar("root ::= \"x\"".into());
        for name in ["grammar", "ebnf", "guided_grammar"] {
            assert_eq!(of(json!({ name: "root ::= \"x\"" })), (name, gbnf.clone()));
        }
    }

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let table = [
            (json!({"n": 0}), "n"),
            (json!({"n": 1000}), "n"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"stop": [1]}), "stop/0"),
            (json!({"stop": "x".repeat(2000)}), "stop"),
            (json!({"stop": vec!["x"; 100]}), "stop"),
            (json!({"logit_bias": 3}), "logit_bias"),
            (json!({"logit_bias": [[1, true]]}), "logit_bias/0/1"),
            (json!({"logit_bias": [[1]]}), "logit_bias/0"),
            (json!({"logit_bias": [[-1, 1]]}), "logit_bias/0/0"),
            (json!({"lora": [{}]}), "lora/0/id"),
            (json!({"grammar": "root ::= \"a\"", "json_schema": {}}), "grammar"),
            (json!({"json_schema": "x"}), "json_schema"),
            (json!({"response_format": {"type": "xml"}}), "response_format/type"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {}}}),
                "response_format/json_schema/schema",
            ),
            (json!({"response_format": "json"}), "response_format"),
            (json!({"priority": "urgent"}), "priority"),
            (json!({"mirostat": 3}), "mirostat"),
            (json!({"seed": 0.5}), "seed"),
            (json!({"min_tokens": -1}), "min_tokens"),
            (json!({"stop_token_ids": [1, "x"]}), "stop_token_ids/1"),
            (json!({"guided_choice": []}), "guided_choice"),
            (json!({"guided_regex": "a", "guided_choice": ["b"]}), "guided_regex"),
            (json!({"structured_outputs": {"structural_tag": "x"}}), "structured_outputs/structural_tag"),
            (json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}), "structured_outputs/regex"),
            (json!({"regex": "a", "json_schema": {}}), "json_schema"),
            (json!({"ebnf": 3}), "ebnf"),
        ];
        for (body, field) in table {
            let fault = read_all(&body).unwrap_err();
            assert_eq!(fault.refusal.field.as_deref(), Some(field), "{body}");
        }
    }
}
