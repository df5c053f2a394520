//! Values of a schema in notations that are not JSON.

use super::writer::{is_text, pattern, properties, regex, schema_enum, LarkWriter};
use serde_json::{json, Value};
use std::collections::HashMap;

/// Deepest nesting of a schema that is followed; what is deeper may be any value.
const DEPTH: usize = 24;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation<'a> {
    /// Gemma's: `{key:1,text:"…"}`, keys bare and in alphabetical order, a mark of its own at both ends of a string.
    Braces(&'a str),
    /// Python's: `{"key": True, "other": [None]}`.
    Python,
    /// MiniMax M3's: a tag for each key, `<item>` for what is in a list; a prefix before every tag.
    Tags(&'a str),
}

/// Values of one schema.
pub struct Values<'w, 'v> {
    w: &'w mut LarkWriter<'v>,
    notation: Notation<'w>,
    /// What references are relative to.
    whole: &'w Value,
    /// Rules of references.
    known: HashMap<String, String>,
    /// Rules of any value and any object.
    any: Option<[String; 2]>,
}

impl<'w, 'v> Values<'w, 'v> {
    /// Starts arguments of the schema `whole`, in `notation`.
    pub fn new(w: &'w mut LarkWriter<'v>, notation: Notation<'w>, whole: &'w Value) -> Values<'w, 'v> {
        Values { w, notation, whole, known: HashMap::new(), any: None }
    }

    /// A function's arguments without what stands around them: keyword arguments in Python's case.
    pub fn arguments(&mut self) -> String {
        match self.notation {
            Notation::Python => {
                let items = self.items(self.whole, &|key| format!("{key}="), "", 0);
                self.list(&items)
            }
            _ => self.members(self.whole, 0),
        }
    }

    /// A value that stands before `close`, which is written too.
    fn value(&mut self, schema: &Value, close: &str, depth: usize) -> String {
        let end = self.w.mark(close);
        if depth > DEPTH {
            return format!("{} {end}", self.any()[0]);
        }
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return format!("{} {end}", self.reference(name, depth));
        }
        let many = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(key)?.as_array());
        if let Some(all) = many.filter(|all| !all.is_empty()) {
            // Of several that must all hold, the first is taken.
            let count = if schema.get("allOf").is_some() { 1 } else { all.len() };
            let all: Vec<String> = all[..count].iter().map(|s| self.value(s, close, depth + 1)).collect();
            return self.w.rule(&all.join(" | "));
        }
        if is_text(schema) {
            return self.string(schema, close);
        }
        if let Some(all) = schema
            .get("const")
            .map(std::slice::from_ref)
            .or(schema.get("enum").and_then(Value::as_array).map(Vec::as_slice))
        {
            let all: Vec<String> = all.iter().map(|value| self.literal(value)).collect();
            return format!("( {} ) {end}", all.join(" | "));
        }
        let body = match schema.get("type") {
            Some(Value::Array(kinds)) => {
                let of = |kind: &Value| {
                    let mut one = schema.clone();
                    one["type"] = kind.clone();
                    one
                };
                let all: Vec<String> = kinds.iter().map(|kind| self.value(&of(kind), close, depth + 1)).collect();
                return self.w.rule(&all.join(" | "));
            }
            Some(Value::String(kind)) => match kind.as_str() {
                "integer" | "number" => self.w.part(schema, self.whole),
                "boolean" => self.words(&[json!(true), json!(false)]),
                "null" => self.literal(&Value::Null),
                "array" => self.array(schema, depth),
                _ => self.object(schema, depth),
            },
            _ if schema.get("properties").is_some() => self.object(schema, depth),
            _ if schema.get("items").is_some() => self.array(schema, depth),
            _ => self.any()[0].clone(),
        };
        format!("{body} {end}")
    }

    fn words(&self, values: &[Value]) -> String {
        let all: Vec<String> = values.iter().map(|value| self.literal(value)).collect();
        format!("( {} )", all.join(" | "))
    }

    /// One value itself.
    fn literal(&self, value: &Value) -> String {
        match (self.notation, value) {
            (Notation::Braces(quote), Value::String(text)) => {
                // Marks in the text itself are no special tokens.
                let quote = self.w.mark(quote);
                let text = if text.is_empty() { String::new() } else { format!("/{}/", regex(text)) };
                format!("{quote} {text} {quote}")
            }
            (Notation::Tags(_), Value::String(text)) if !text.is_empty() => format!("/{}/", regex(text)),
            (Notation::Python, Value::Bool(true)) => "\"True\"".into(),
            (Notation::Python, Value::Bool(false)) => "\"False\"".into(),
            (Notation::Python, Value::Null) => "\"None\"".into(),
            _ => format!("/{}/", regex(&value.to_string())),
        }
    }

    fn string(&mut self, schema: &Value, close: &str) -> String {
        let end = self.w.mark(close);
        if let Some(all) = schema_enum(schema) {
            let all: Vec<String> = all.iter().map(|text| self.literal(&json!(text))).collect();
            return format!("( {} ) {end}", all.join(" | "));
        }
        match self.notation {
            Notation::Braces(quote) => {
                format!("{} {} {end}", self.w.mark(quote), self.w.text(pattern(schema).as_deref(), quote))
            }
            Notation::Tags(_) if !close.is_empty() => self.w.text(pattern(schema).as_deref(), close),
            // A JSON string is one of Python, too.
            _ => format!("{} {end}", self.w.part(schema, self.whole)),
        }
    }

    fn array(&mut self, schema: &Value, depth: usize) -> String {
        let any = json!({});
        let item = schema.get("items").unwrap_or(&any);
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let more = |least: u64, one: &str| match bound("maxItems") {
            Some(most) => format!("({one}){{{least},{}}}", most.max(least).min(1000)),
            None => format!("({one}){{{least},}}"),
        };
        if let Notation::Tags(prefix) = self.notation {
            // A list without items could not be told from an empty text.
            let one = self.element(prefix, "item", item, depth);
            return more(least.max(1), &one);
        }
        let one = self.value(item, "", depth + 1);
        let one = self.w.rule(&one);
        match (least, bound("maxItems")) {
            (0, Some(0)) => "\"[\" \"]\"".into(),
            (least, most) => {
                let rest = match most {
                    Some(most) => {
                        format!("({} {one}){{{},{}}}", self.comma(), least.max(1) - 1, most.max(least).min(1000) - 1)
                    }
                    None => format!("({} {one}){{{},}}", self.comma(), least.max(1) - 1),
                };
                match least {
                    0 => format!("\"[\" ({one} {rest})? \"]\""),
                    _ => format!("\"[\" {one} {rest} \"]\""),
                }
            }
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> String {
        if properties(schema).is_empty() {
            return self.any()[1].clone();
        }
        match self.notation {
            Notation::Tags(_) => self.members(schema, depth),
            _ => {
                let members = self.members(schema, depth);
                self.w.rule(&format!("\"{{\" {members} \"}}\""))
            }
        }
    }

    /// What stands in an object's braces, or tags.
    fn members(&mut self, schema: &Value, depth: usize) -> String {
        match self.notation {
            Notation::Tags(prefix) => {
                let mut out = Vec::new();
                for (key, value, must) in properties(schema) {
                    let one = self.element(prefix, key, value, depth);
                    out.push(if must { one } else { format!("{one}?") });
                }
                self.w.rule(&out.join(" "))
            }
            Notation::Braces(_) => {
                let mut items = self.items(schema, &|key| format!("{key}:"), "", depth);
                items.sort_by(|a, b| a.0.cmp(&b.0));
                self.list(&items)
            }
            Notation::Python => {
                let items = self.items(schema, &|key| format!("{}: ", json!(key)), "", depth);
                self.list(&items)
            }
        }
    }

    /// A tag with a value in it.
    fn element(&mut self, prefix: &str, key: &str, schema: &Value, depth: usize) -> String {
        let open = self.w.mark(&format!("{prefix}<{key}>"));
        let value = self.value(schema, &format!("{prefix}</{key}>"), depth + 1);
        self.w.rule(&format!("{open} {value} SPACE?"))
    }

    /// Keys, rules of key and value, and whether they must be there.
    fn items(
        &mut self,
        schema: &Value,
        key_mark: &dyn Fn(&str) -> String,
        close: &str,
        depth: usize,
    ) -> Vec<(String, String, bool)> {
        let mut items = Vec::new();
        for (key, value, must) in properties(schema) {
            let value = self.value(value, close, depth + 1);
            let one = self.w.rule(&format!("{} {value}", self.w.mark(&key_mark(key))));
            items.push((key.clone(), one, must));
        }
        items
    }

    fn comma(&self) -> &'static str {
        match self.notation {
            Notation::Python => "/, ?/",
            _ => "\",\"",
        }
    }

    /// Items in their order with commas between them; those that need not be there may be left out.
    fn list(&mut self, items: &[(String, String, bool)]) -> String {
        let comma = self.comma();
        // What may follow behind an item, and where there was none before.
        let (mut behind, mut first) = (String::new(), String::new());
        for (_, one, must) in items.iter().rev() {
            let none = if first.is_empty() { "\"\"".to_string() } else { first };
            let next = format!("{one} {behind}");
            first = if *must { self.w.rule(&next) } else { self.w.rule(&format!("{next} | {none}")) };
            let next = format!("{comma} {one} {behind}");
            let rest = if behind.is_empty() { "\"\"".to_string() } else { behind };
            behind = if *must { self.w.rule(&next) } else { self.w.rule(&format!("{next} | {rest}")) };
        }
        first
    }

    /// The rule of a reference within the whole schema.
    fn reference(&mut self, name: &str, depth: usize) -> String {
        if let Some(rule) = self.known.get(name) {
            return rule.clone();
        }
        let found = name.strip_prefix('#').and_then(|path| self.whole.pointer(path));
        let Some(found) = found else { return self.any()[0].clone() };
        let rule = self.w.name();
        self.known.insert(name.to_string(), rule.clone());
        let body = self.value(found, "", depth + 1);
        self.w.define(&rule, &body);
        rule
    }

    /// Rules of any value, and of any object.
    fn any(&mut self) -> [String; 2] {
        if let Some(any) = &self.any {
            return any.clone();
        }
        let [any, object] = [self.w.name(), self.w.name()];
        self.any = Some([any.clone(), object.clone()]);
        let number = self.w.value(&json!({"type": "number"}));
        let words = self.words(&[json!(true), json!(false), Value::Null]);
        let text = self.string(&json!({"type": "string"}), "");
        let comma = self.comma();
        let member = match self.notation {
            Notation::Tags(prefix) => {
                let mark = |text: &str| self.w.mark(&format!("{prefix}{text}"));
                let item = format!("{} {any} {}", mark("<item>"), mark("</item>"));
                // Tags of free names could not be closed by the same name: such values are JSON.
                let json = self.w.value(&json!({}));
                self.w.define(&any, &format!("{json} | ({item})+"));
                let json = self.w.value(&json!({"type": "object"}));
                self.w.define(&object, &json);
                return [any, object];
            }
            Notation::Braces(_) => format!("/[A-Za-z_][A-Za-z0-9_]*:/ {any}"),
            Notation::Python => format!("{text} /: ?/ {any}"),
        };
        self.w.define(&object, &format!("\"{{\" ({member} ({comma} {member})*)? \"}}\""));
        let array = format!("\"[\" ({any} ({comma} {any})*)? \"]\"");
        self.w.define(&any, &format!("{number} | {words} | {text} | {object} | {array}"));
        [any, object]
    }
}
