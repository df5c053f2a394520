//! Special tokens, what is put around texts, chat templates and normalizers: what a tokenizer's files say beside its tokens.

use crate::json::{self, Object};
use crate::metadata::{Meta, MetaValue};
use crate::{Error, Result};
use serde_json::Value as Json;
use std::path::Path;

/// The types of special tokens that files are asked for.
const TYPES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

/// What a tokenizer's files say beside its tokens.
#[derive(Debug, Default)]
pub struct Special {
    types: Vec<String>,
    len: Option<usize>,
    merges: Vec<String>,
    ids: Vec<(String, u32)>,
    add: Vec<(String, bool)>,
    /// Templates of chats by name, of which `default` is the one.
    templates: Vec<(String, String)>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

/// The key of a type's id; some types have none.
fn id_key(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bos" => "tokenizer.ggml.bos_token_id",
        "eos" => "tokenizer.ggml.eos_token_id",
        "unk" => "tokenizer.ggml.unknown_token_id",
        "sep" => "tokenizer.ggml.seperator_token_id",
        "pad" => "tokenizer.ggml.padding_token_id",
        "mask" => "tokenizer.ggml.mask_token_id",
        "eot" => "tokenizer.ggml.eot_token_id",
        "eom" => "tokenizer.ggml.eom_token_id",
        _ => return None,
    })
}

fn add_key(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bos" => "tokenizer.ggml.add_bos_token",
        "eos" => "tokenizer.ggml.add_eos_token",
        "sep" => "tokenizer.ggml.add_sep_token",
        _ => return None,
    })
}

/// The special token of a template's part.
fn token(part: Option<&Json>) -> Option<String> {
    Some(part?.get("SpecialToken")?.get("id")?.as_str()?.to_string()).filter(|t| !t.is_empty())
}

/// What a tokenizer's settings call their special tokens, which may be objects.
fn special_token_text(settings: &Object, key: &str) -> Option<String> {
    match settings.get(key)? {
        Json::String(text) => Some(text.clone()).filter(|t| !t.is_empty()),
        Json::Object(token) => token.get("content")?.as_str().map(String::from),
        _ => None,
    }
}

impl Special {
    /// Reads a folder's files. `len` is the number of tokens, where ids past it are to be left out.
    ///
    /// # Errors
    /// Files that are not what they should be.
    pub fn read(dir: &Path, merges: bool, len: Option<usize>) -> Result<Special> {
        Special::read_types(dir, merges, len, &TYPES)
    }

    /// Reads a folder's special tokens of the types `types`.
    ///
    /// # Errors
    /// As [`Special::read`].
    pub fn read_types(dir: &Path, merges: bool, len: Option<usize>, types: &[&str]) -> Result<Special> {
        let mut special = Special { types: types.iter().map(|t| t.to_string()).collect(), len, ..Special::default() };
        let path = dir.join("tokenizer.json");
        let tokenizer = json::object(&path)?;
        let mut settings = json::object(&dir.join("tokenizer_config.json"))?;
        if let Some(tokenizer) = &tokenizer {
            if merges {
                special.merges(tokenizer, &path)?;
            }
            if let Some(normalizer) = tokenizer.get("normalizer") {
                special.normalizer(normalizer, 0);
            }
            special.processors(tokenizer, settings.as_mut());
        }
        if let Some(settings) = settings.filter(|s| !s.is_empty()) {
            special.templates(dir, &settings)?;
            let added = tokenizer.as_ref().and_then(|t| t.get("added_tokens")).and_then(Json::as_array);
            special.by_settings(&settings, added.map_or(&[][..], Vec::as_slice));
        }
        if let Some(config) = json::object(&dir.join("config.json"))? {
            for kind in special.types.clone() {
                let key = format!("{kind}_token_id");
                let own = config.get(&key).filter(|v| !v.is_null());
                let id = own.or_else(|| config.get("text_config")?.get(&key)).and_then(Json::as_u64);
                if let Some(id) = id {
                    special.id(&kind, id);
                }
            }
        }
        if merges && special.merges.is_empty() {
            special.merges_of_text(dir)?;
        }
        Ok(special)
    }

    /// Sets a type's id, unless it is set or past the vocabulary.
    pub fn id(&mut self, kind: &str, id: u64) {
        let Ok(id) = u32::try_from(id) else { return };
        if self.len.is_none_or(|len| (id as usize) < len) && !self.ids.iter().any(|(k, _)| k == kind) {
            self.ids.push((kind.to_string(), id));
        }
    }

    /// Leaves chat templates out.
    pub fn without_templates(mut self) -> Special {
        self.templates.clear();
        self
    }

    fn add(&mut self, kind: &str, value: bool) {
        match self.add.iter_mut().find(|(k, _)| k == kind) {
            Some((_, old)) => *old = value,
            None => self.add.push((kind.to_string(), value)),
        }
    }

    fn merges(&mut self, tokenizer: &Object, path: &Path) -> Result<()> {
        let list = tokenizer.get("model").and_then(|m| m.get("merges")).and_then(Json::as_array);
        let merge = |merge: &Json| match merge {
            Json::String(text) => Some(text.clone()),
            Json::Array(pair) if pair.len() == 2 => {
                // A blank divides the two, so that those in them stand as byte-level BPE writes them.
                let part = |p: &Json| Some(p.as_str()?.replace(' ', "\u{120}"));
                Some(format!("{} {}", part(&pair[0])?, part(&pair[1])?))
            }
            _ => None,
        };
        for (i, found) in list.into_iter().flatten().enumerate() {
            let what = || Error::file(path, format!("model.merges[{i}]: expected a text or two, found {found}"));
            self.merges.push(merge(found).ok_or_else(what)?);
        }
        Ok(())
    }

    fn merges_of_text(&mut self, dir: &Path) -> Result<()> {
        let Some(text) = json::text(&dir.join("merges.txt"))? else { return Ok(()) };
        let commented = text.lines().next().is_some_and(|l| l.trim().starts_with('#'));
        for line in text.lines().skip(usize::from(commented)) {
            let parts: Vec<&str> = line.split_whitespace().collect();
            if let [a, b] = parts[..] {
                self.merges.push(format!("{a} {b}"));
            }
        }
        Ok(())
    }

    fn normalizer(&mut self, normalizer: &Json, depth: usize) {
        let flag = |key: &str| normalizer.get(key).and_then(Json::as_bool);
        match normalizer.get("type").and_then(Json::as_str) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                if normalizer.get("lowercase").is_some() {
                    self.lowercase = flag("lowercase");
                }
                if normalizer.get("strip_accents").is_some() {
                    self.strip_accents = flag("strip_accents");
                }
            }
            Some("Sequence") if depth < 16 => {
                let parts = normalizer.get("normalizers").and_then(Json::as_array);
                parts.into_iter().flatten().for_each(|n| self.normalizer(n, depth + 1));
            }
            _ => {}
        }
    }

    /// What is put around texts. Settings learn tokens that only the processors name.
    fn processors(&mut self, tokenizer: &Object, settings: Option<&mut Object>) {
        let given = settings.is_some();
        let mut none = Object::new();
        let settings = settings.unwrap_or(&mut none);
        let of = |settings: &Object, key: &str| if given { special_token_text(settings, key) } else { None };
        let (mut bos, mut cls) = (of(settings, "bos_token"), of(settings, "cls_token"));
        let (mut eos, mut sep) = (of(settings, "eos_token"), of(settings, "sep_token"));
        if bos.is_none() && cls.is_some() {
            settings.insert("bos_token".into(), settings["cls_token"].clone());
            bos = cls.clone();
        }
        if eos.is_none() && sep.is_some() {
            settings.insert("eos_token".into(), settings["sep_token"].clone());
            eos = sep.clone();
        }
        let Some(processor) = tokenizer.get("post_processor").filter(|p| p.is_object()) else { return };
        let one = std::slice::from_ref(processor);
        let parts = processor.get("processors").and_then(Json::as_array).map_or(one, Vec::as_slice);
        for part in parts {
            match part.get("type").and_then(Json::as_str) {
                Some("ByteLevel") => {
                    for kind in ["bos", "eos"] {
                        if !self.add.iter().any(|(k, _)| k == kind) {
                            self.add(kind, false);
                        }
                    }
                }
                Some("RobertaProcessing") => {
                    ["bos", "eos", "sep"].iter().for_each(|kind| self.add(kind, true));
                    let own = |key: &str| part.get(key).and_then(|t| t.get(0)).and_then(Json::as_str).map(String::from);
                    let mut learn = |key: &str, found: &mut Option<String>, or: &Option<String>| {
                        if found.is_none() && given {
                            *found = own(key).or_else(|| or.clone());
                            settings.insert(format!("{key}_token"), found.clone().map_or(Json::Null, Json::String));
                        }
                    };
                    learn("cls", &mut cls, &bos);
                    learn("sep", &mut sep, &eos);
                }
                Some("TemplateProcessing") => {
                    let list = |key: &str| part.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                    let (single, pair) = (list("single"), list("pair"));
                    let (mut first, mut last) = (None, None);
                    if single.len() > 1 {
                        first = token(single.first());
                        last = token(single.last());
                    }
                    if let Some(first) = &first {
                        let mut learn = |key: &str, found: &mut Option<String>| {
                            if found.is_none() {
                                *found = Some(first.clone());
                                settings.insert(key.into(), Json::String(first.clone()));
                            }
                        };
                        if !given {
                            bos = Some(first.clone());
                        } else if bos.as_ref() != Some(first) && cls.as_ref() != Some(first) {
                            learn("bos_token", &mut bos);
                            learn("cls_token", &mut cls);
                        }
                        let is = bos.as_ref() == Some(first) || cls.as_ref() == Some(first);
                        self.add("bos", is);
                    }
                    if let Some(last) = &last {
                        if given && eos.as_ref() != Some(last) {
                            // The former end is one of turns.
                            let kind = ["eot", "eom"].into_iter().find(|k| !self.types.iter().any(|t| t == k));
                            if let Some(kind) = kind {
                                self.types.push(kind.to_string());
                                settings.insert(format!("{kind}_token"), eos.clone().map_or(Json::Null, Json::String));
                            }
                            settings.insert("eos_token".into(), Json::String(last.clone()));
                        }
                        eos = Some(last.clone());
                        self.add("eos", true);
                    }
                    self.pair(pair, (&first, &last), (&sep, &eos), given.then_some(&mut *settings));
                }
                _ => {}
            }
        }
    }

    /// What stands between two texts.
    fn pair(
        &mut self,
        pair: &[Json],
        (first, last): (&Option<String>, &Option<String>),
        (sep, eos): (&Option<String>, &Option<String>),
        settings: Option<&mut Object>,
    ) {
        let begins = first.is_some() && token(pair.first()) == *first;
        let ends = last.is_some() && token(pair.last()) == *last;
        let (start, end) = (usize::from(begins), pair.len().saturating_sub(usize::from(ends)));
        let Some(pair) = pair.get(start..end).filter(|p| !p.is_empty()) else { return };
        let sequence = |part: Option<&Json>| Some(part?.get("Sequence")?.get("id")?.as_str()?.to_string());
        let both = sequence(pair.first()).as_deref() == Some("A") && sequence(pair.last()).as_deref() == Some("B");
        let between = if pair.len() > 2 { &pair[1..pair.len() - 1] } else { &[] };
        if !both || between.is_empty() {
            return;
        }
        let is_sep =
            |part: &Json| token(Some(part)).is_some_and(|t| Some(&t) == sep.as_ref() || Some(&t) == eos.as_ref());
        let add = is_sep(&between[0]) && last.is_none() || between.len() == 2 && is_sep(&between[1]);
        self.add("sep", add);
        if let (true, None, Some(settings)) = (add, sep, settings) {
            settings.insert("sep_token".into(), eos.clone().map_or(Json::Null, Json::String));
        }
    }

    fn templates(&mut self, dir: &Path, settings: &Object) -> Result<()> {
        let text = |path: &Path| json::text(path);
        let mut beside = Vec::new();
        if let Some(template) = text(&dir.join("chat_template.jinja"))? {
            beside.push(("default".to_string(), template));
            let more = dir.join("additional_chat_templates");
            let mut paths: Vec<_> =
                std::fs::read_dir(&more).into_iter().flatten().flatten().map(|e| e.path()).collect();
            paths.retain(|p| p.extension().is_some_and(|e| e == "jinja"));
            paths.sort();
            for path in paths {
                let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                beside.extend(text(&path)?.map(|template| (name, template)));
            }
        } else if let Some(object) = json::object(&dir.join("chat_template.json"))? {
            beside = read_templates(object.get("chat_template"));
        }
        self.templates = match settings.get("chat_template") {
            Some(own) => read_templates(Some(own)),
            None => beside,
        };
        Ok(())
    }

    fn by_settings(&mut self, settings: &Object, added: &[Json]) {
        for kind in self.types.clone() {
            if let Some(add) = settings.get(&format!("add_{kind}_token")).and_then(Json::as_bool) {
                if !self.add.iter().any(|(k, _)| *k == kind) {
                    self.add(&kind, add);
                }
            }
            let Some(content) = special_token_text(settings, &format!("{kind}_token")) else { continue };
            let found = added.iter().find(|t| t.get("content").and_then(Json::as_str) == Some(&content));
            if let Some(id) = found.and_then(|t| t.get("id")).and_then(Json::as_u64) {
                self.id(&kind, id);
            }
        }
    }

    /// Sets the keys.
    pub fn put(self, meta: &mut Meta) {
        meta.set("tokenizer.ggml.merges", MetaValue::Strs(self.merges));
        for (kind, id) in self.ids {
            if let Some(key) = id_key(&kind) {
                meta.set(key, MetaValue::U32(id));
            }
        }
        for (kind, add) in self.add {
            if let Some(key) = add_key(&kind) {
                meta.set(key, MetaValue::Bool(add));
            }
        }
        let safe =
            |name: &str| name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>();
        let mut names: Vec<String> = Vec::new();
        let mut default = None;
        for (name, template) in self.templates {
            let name = safe(&name);
            if name == "default" {
                default = Some(template);
            } else if !name.is_empty() {
                meta.set(format!("tokenizer.chat_template.{name}"), template);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        meta.set("tokenizer.chat_templates", MetaValue::Strs(names));
        if let Some(template) = default {
            meta.set("tokenizer.chat_template", template);
        }
        if let Some(is) = self.lowercase {
            meta.set("tokenizer.ggml.normalizer.lowercase", MetaValue::Bool(is));
        }
        if let Some(is) = self.strip_accents {
            meta.set("tokenizer.ggml.normalizer.strip_accents", MetaValue::Bool(is));
        }
    }
}

/// A template, or a list of them with names.
fn read_templates(value: Option<&Json>) -> Vec<(String, String)> {
    match value {
        Some(Json::String(template)) => vec![("default".to_string(), template.clone())],
        Some(Json::Array(list)) => {
            let text = |t: &Json, key: &str| t.get(key).and_then(Json::as_str).map(String::from);
            list.iter().filter_map(|t| Some((text(t, "name")?, text(t, "template")?))).collect()
        }
        _ => Vec::new(),
    }
}
