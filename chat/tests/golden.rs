//! Templates of real models against what Python's jinja2 made of them.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use pumex_chat::{ArgumentForm, DateTime, Error, Json, Request, Template};

/// The whole set of cases, where it is there beside the repository.
fn whole() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["../../shared/golden/chat", "../../../shared/golden/chat"].iter().map(|p| root.join(p)).find(|p| p.is_dir())
}

fn request(case: &Json, file: &Json) -> Request {
    let text = |key: &str| file.get(key).and_then(Json::as_str).unwrap_or_default().to_string();
    let mut request = Request::new(case.get("messages").unwrap().clone());
    request.tools = case.get("tools").cloned();
    request.add_generation_prompt = case.get("add_generation_prompt") == Some(&Json::Bool(true));
    request.variables = case.get("kwargs").and_then(Json::as_object).unwrap_or_default().to_vec();
    (request.bos, request.eos) = (text("bos_token"), text("eos_token"));
    request.now = DateTime::parse("2026-01-15T12:00:00");
    request
}

/// How many cases a file has, and the names of those that differ.
fn check(folder: &Path, file: &Path) -> (usize, Vec<String>) {
    let json = Json::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
    let source = folder.join(json.get("template").unwrap().as_str().unwrap());
    let template = Template::parse(&std::fs::read_to_string(source).unwrap()).unwrap();
    let cases = json.get("cases").unwrap().as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let name =
            format!("{} {}", file.file_stem().unwrap().to_string_lossy(), case.get("name").unwrap().as_str().unwrap());
        let made = template.render(&request(case, &json));
        let text = |key: &str| case.get(key).and_then(Json::as_str);
        let same = match (&made, text("expected"), text("class")) {
            (Ok(prompt), Some(expected), _) => prompt.text == expected,
            (Err(Error::Refused(message)), None, Some("refused")) => Some(message.as_str()) == text("error"),
            (Err(Error::Template { .. }), None, Some("template error")) => true,
            _ => false,
        };
        if !same {
            wrong.push(name);
        }
    }
    (cases.len(), wrong)
}

fn check_all(folder: &Path) -> (usize, Vec<String>) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("cases")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let (mut count, mut wrong) = (0, Vec::new());
    for file in files {
        let (cases, differ) = check(folder, &file);
        count += cases;
        wrong.extend(differ);
    }
    (count, wrong)
}

#[test]
fn the_selection_is_equal() {
    let (count, wrong) = check_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
    assert!(count > 250, "{count} cases");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_given_case_is_equal() {
    let Some(folder) = whole() else {
        println!("skipped: the whole set of cases is not beside the repository");
        return;
    };
    let (count, wrong) = check_all(&folder);
    println!("{} of {count} differ", wrong.len());
    assert!(count > 1000, "{count} cases");
    assert_eq!(wrong, Vec::<String>::new());
}

/// Templates take the form of arguments that their cases of tool calls have.
#[test]
fn the_form_of_arguments_is_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut tried = 0;
    for file in std::fs::read_dir(folder.join("cases")).unwrap().map(|e| e.unwrap().path()) {
        let json = Json::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let source = std::fs::read_to_string(folder.join(json.get("template").unwrap().as_str().unwrap())).unwrap();
        let found = Template::parse(&source).unwrap().argument_form();
        let cases = json.get("cases").unwrap().as_array().unwrap();
        let mut forms: Vec<&str> = cases.iter().filter_map(|c| c.get("arguments").and_then(Json::as_str)).collect();
        forms.dedup();
        let wanted = match forms[..] {
            ["dict"] => ArgumentForm::Object,
            ["json"] => ArgumentForm::Text,
            _ => continue,
        };
        tried += 1;
        assert_eq!(found, wanted, "{}", file.display());
    }
    assert!(tried > 15, "{tried}");
}

#[test]
fn arguments_are_brought_into_a_form() {
    let text = r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1.0}"}}]}]}"#;
    let mut request = Request::from_json(text).unwrap();
    let before = request.messages.clone();
    request.bring_arguments(ArgumentForm::Object);
    assert!(request.messages.dump().contains(r#""arguments": {"a": 1.0}"#));
    request.bring_arguments(ArgumentForm::Text);
    assert_eq!(request.messages, before);
}
