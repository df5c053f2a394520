//! Small templates against what jinja2 makes of them.
#![allow(clippy::unwrap_used)]

use pumex_chat::{DateTime, Json, Request, Template};

/// What differs on purpose: lists and dicts may be changed, which the sandbox forbids; and what no template of a conversation asks for.
const OTHERS: [&str; 5] = [
    "{{ l.append(4) }}",
    "{{ {'a':1}.pop('a') }}",
    "{{ l|attr('append') is defined }}",
    "{{ u.encode is defined }}",
    "{{ self is defined }}",
];

#[test]
fn small_templates_are_as_python_has_them() {
    let file = Json::parse(include_str!("golden/expressions.json")).unwrap();
    let mut request = Request::new(Json::Array(Vec::new()));
    request.variables = file.get("values").unwrap().as_object().unwrap().to_vec();
    request.now = DateTime::parse("2026-01-15T12:00:00");
    let cases = file.get("cases").unwrap().as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let [Json::Str(source), expected] = case.as_array().unwrap() else { panic!("{case:?}") };
        if OTHERS.contains(&source.as_str()) {
            continue;
        }
        let made = Template::parse(source).and_then(|t| t.render(&request));
        let made = made.map(|prompt| prompt.text).map_err(|e| e.to_string());
        if made.as_deref().ok() != expected.as_str() {
            wrong.push(format!("{source:?}\n    made {made:?}\n  python {:?}", expected.as_str()));
        }
    }
    assert!(cases.len() > 250);
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
