//! The front matter of a folder's `README.md`: the model card.

use crate::json;
use crate::{Error, Result};
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

/// A model card's fields; empty where there is none.
#[derive(Debug)]
pub struct Card(Yaml);

/// A scalar as text; none for others.
fn text(yaml: &Yaml) -> Option<String> {
    match yaml {
        Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        Yaml::Boolean(is) => Some(if *is { "True" } else { "False" }.to_string()),
        _ => None,
    }
}

impl Card {
    /// The card of a folder.
    ///
    /// # Errors
    /// A front matter that is no YAML.
    pub fn read(dir: &Path) -> Result<Card> {
        let path = dir.join("README.md");
        let Some(content) = json::text(&path)? else { return Ok(Card(Yaml::Null)) };
        let mut lines = content.lines();
        if lines.next() != Some("---") {
            return Ok(Card(Yaml::Null));
        }
        let front: Vec<&str> = lines.take_while(|line| *line != "---").collect();
        let front = format!("{}\n", front.join("\n")).replace("- no\n", "- \"no\"\n").replace('\t', "  ");
        let documents = YamlLoader::load_from_str(&front)
            .map_err(|e| Error::file(&path, format!("front matter: expected YAML: {e}")))?;
        Ok(Card(documents.into_iter().next().unwrap_or(Yaml::Null)))
    }

    fn get(&self, key: &str) -> Option<&Yaml> {
        let value = self.0.as_hash()?.get(&Yaml::String(key.to_string()))?;
        (!matches!(value, Yaml::Null | Yaml::BadValue)).then_some(value)
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.0.as_hash().is_some_and(|h| h.contains_key(&Yaml::String(key.to_string())))
    }

    /// A scalar's text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(text)
    }

    /// A scalar, or the scalars of a list.
    pub fn list(&self, key: &str) -> Option<Vec<String>> {
        let value = self.get(key)?;
        match value.as_vec() {
            Some(list) => Some(list.iter().filter_map(text).collect()),
            None => text(value).map(|one| vec![one]),
        }
    }
}
