//! GLM's calls: `name`, then `<arg_key>k</arg_key><arg_value>v</arg_value>` for each argument.

use crate::reply::call::Emit;
use crate::reply::params::{escape_json, take, value, Type, Types};
use crate::reply::{until, MarkSearch};

#[derive(Clone, Copy, PartialEq, Eq)]
enum PairsState {
    Name,
    Between,
    Key,
    BeforeValue,
    Value,
}

pub(super) struct PairsParser {
    /// What ends the section: it is left to the section.
    close: String,
    at: PairsState,
    function: String,
    text: String,
    of: Type,
    count: usize,
    begun: bool,
}

impl PairsParser {
    pub fn new(close: String) -> PairsParser {
        let (function, text) = (String::new(), String::new());
        PairsParser { close, at: PairsState::Name, function, text, of: Type::Unknown, count: 0, begun: false }
    }

    /// Goes on; true when the call has ended.
    pub fn run(&mut self, pending: &mut String, types: &Types, emit: &mut Emit) -> bool {
        loop {
            match self.at {
                PairsState::Name | PairsState::Between => {
                    let found = until(pending, &["<arg_key>", &self.close]);
                    let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
                    self.text.push_str(text);
                    let MarkSearch::Mark(_, mark) = found else { return false };
                    let text = std::mem::take(&mut self.text);
                    if self.at == PairsState::Name {
                        self.function = text.trim().to_string();
                        emit.start(&self.function, None);
                    }
                    if mark == 1 {
                        emit.arguments(if self.count == 0 { "{}" } else { "}" });
                        emit.end(true);
                        pending.insert_str(0, &self.close);
                        return true;
                    }
                    self.at = PairsState::Key;
                }
                PairsState::Key => {
                    if !take(pending, "</arg_key>", &mut self.text) {
                        return false;
                    }
                    let key = std::mem::take(&mut self.text);
                    self.of = types.of(&self.function, key.trim());
                    emit.arguments(if self.count == 0 { "{\"" } else { ", \"" });
                    emit.arguments(&escape_json(key.trim()));
                    emit.arguments("\": ");
                    self.count += 1;
                    self.begun = false;
                    self.at = PairsState::BeforeValue;
                }
                PairsState::BeforeValue => match until(pending, &["<arg_value>"]) {
                    MarkSearch::Mark(..) => self.at = PairsState::Value,
                    MarkSearch::Text(_) => return false,
                },
                PairsState::Value => {
                    let over = take(pending, "</arg_value>", &mut self.text);
                    if self.of == Type::Text {
                        emit.arguments(if self.begun { "" } else { "\"" });
                        self.begun = true;
                        emit.arguments(&escape_json(&std::mem::take(&mut self.text)));
                        emit.arguments(if over { "\"" } else { "" });
                    } else if over {
                        emit.arguments(&value(&std::mem::take(&mut self.text), self.of));
                    }
                    if !over {
                        return false;
                    }
                    self.at = PairsState::Between;
                }
            }
        }
    }
}
