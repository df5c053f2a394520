//! Masks and texts over a vocabulary of single bytes and a few longer tokens.

use super::*;
use std::sync::Arc;

const END: u32 = 256;

/// Texts, and whether they are taken and may end.
type Inputs = &'static [(&'static str, Option<bool>)];
/// Bodies of each nonterminal.
type Rewritings = &'static [(&'static str, &'static [&'static str])];

/// All bytes, an end, a special mark and some longer tokens.
fn vocabulary() -> Arc<Vocabulary> {
    let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
    let longer: [&[u8]; 8] = [b"\":", b"ab", b"abc", b"true", b"{\"", b"12", b"\xc3\xa9t", b"a"];
    let pieces =
        bytes.iter().map(|b| TokenText::Text(b)).chain([TokenText::Special(b"</s>"), TokenText::Special(b"<tool>")]);
    Arc::new(Vocabulary::new(pieces.chain(longer.map(TokenText::Text)), &[END]).unwrap())
}

fn gbnf(text: &str) -> Result<Matcher> {
    vocabulary().matcher(&GrammarSource::Gbnf(text.to_string()))
}

/// Whether the matcher takes a text, byte by byte, and whether it may end there.
fn takes(matcher: &Matcher, text: &str) -> Option<bool> {
    let mut matcher = matcher.clone();
    for byte in text.bytes() {
        matcher.accept(u32::from(byte)).ok()?;
    }
    Some(matcher.is_complete().unwrap())
}

fn is_allowed(mask: &[u32], id: u32) -> bool {
    mask[id as usize / 32] >> (id % 32) & 1 == 1
}

#[test]
fn gbnf_means_what_it_says_character_by_character() {
    let cases: &[(&str, Inputs)] = &[
        (
            "root ::= [a-z]+ \"bar\"",
            &[("bar", Some(false)), ("xbar", Some(true)), ("barbar", Some(true)), ("x1", None)],
        ),
        (
            "root ::= \"a\"* \"ab\" | \"aac\"",
            &[("ab", Some(true)), ("aac", Some(true)), ("aaab", Some(true)), ("aaac", None)],
        ),
        (
            "root ::= x x\nx ::= [0-9]{2,3} | \"\"",
            &[("", Some(true)), ("1", Some(false)), ("1234", Some(true)), ("1234567", None)],
        ),
        ("root ::= \"(\" root \")\" | [^()\\n] # c", &[("((x))", Some(true)), ("((x)", Some(false)), (")", None)]),
        ("root ::= root \"+\" n | n\nn ::= [1-9] [0-9]*", &[("12+3", Some(true)), ("12+", Some(false)), ("0", None)]),
        ("root ::= . \"\\u00e9\" (\n \"y\" |\n \"n\" )?", &[("éé", Some(true)), ("ééy", Some(true)), ("éz", None)]),
    ];
    for (text, expected) in cases {
        let matcher = gbnf(text).unwrap();
        for (input, want) in *expected {
            assert_eq!(takes(&matcher, input), *want, "{text}: {input:?}");
        }
    }
}

/// Texts up to a length that small grammars without special tokens make, by plain rewriting.
fn language(alternatives: &[(&str, &[&str])], most: usize) -> std::collections::BTreeSet<String> {
    let (mut found, mut seen) = (std::collections::BTreeSet::new(), std::collections::HashSet::new());
    let mut queue = vec!["R".to_string()];
    while let Some(form) = queue.pop() {
        let Some(at) = form.find(|c: char| c.is_uppercase()) else {
            found.insert(form);
            continue;
        };
        let (_, bodies) = alternatives.iter().find(|(name, _)| form[at..].starts_with(name)).unwrap();
        for body in *bodies {
            let next = format!("{}{body}{}", &form[..at], &form[at + 1..]);
            if next.chars().filter(|c| c.is_lowercase()).count() <= most
                && next.len() <= 2 * most
                && seen.insert(next.clone())
            {
                queue.push(next);
            }
        }
    }
    found
}

#[test]
fn masks_are_those_of_a_plain_matcher() {
    let grammars: &[(&str, Rewritings)] = &[
        ("root ::= \"a\" root \"b\" | \"ab\" | \"abc\"", &[("R", &["aRb", "ab", "abc"])]),
        ("root ::= x*\nx ::= \"ab\" | \"a\" | \"bca\"", &[("R", &["XR", ""]), ("X", &["ab", "a", "bca"])]),
        ("root ::= (\"a\" | \"ab\") (\"c\" | \"bcc\")", &[("R", &["ac", "abcc", "abc", "abbcc"])]),
    ];
    for (text, plain) in grammars {
        let most = 18;
        let texts = language(plain, most);
        let viable = |s: &str| texts.iter().any(|t| t.starts_with(s));
        let start = gbnf(text).unwrap();
        let prefixes: std::collections::BTreeSet<&str> =
            texts.iter().flat_map(|t| (0..=t.len().min(5)).map(|n| &t[..n])).collect();
        for prefix in prefixes {
            let mut matcher = start.clone();
            prefix.bytes().for_each(|b| matcher.accept(u32::from(b)).unwrap());
            let mask = matcher.mask().unwrap();
            for (id, piece) in [(97, "a"), (98, "b"), (99, "c"), (100, "d"), (259, "ab"), (260, "abc"), (265, "a")] {
                assert_eq!(
                    is_allowed(&mask, id),
                    viable(&format!("{prefix}{piece}")),
                    "{text}: {prefix:?} + {piece:?}"
                );
            }
            assert_eq!(is_allowed(&mask, END), texts.contains(prefix), "{text}: end behind {prefix:?}");
        }
    }
}

#[test]
fn a_schema_forces_its_json_and_nothing_special_stands_in_strings() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n","s"],
        "additionalProperties":false}"#;
    let mut matcher = vocabulary().matcher(&GrammarSource::JsonSchema(schema.to_string())).unwrap();
    assert_eq!(takes(&matcher, r#"{"n": 3,"s":"é\n"}"#), Some(true));
    assert_eq!(takes(&matcher, r#"{"n":true"#), None);
    "{\"n\":1,\"s\":\"a".bytes().for_each(|b| matcher.accept(u32::from(b)).unwrap());
    let mask = matcher.mask().unwrap();
    assert!(!is_allowed(&mask, END) && !is_allowed(&mask, 257), "special tokens are no text");
    assert!(
        is_allowed(&mask, 0xc3) && is_allowed(&mask, 264) && !is_allowed(&mask, 0xa9),
        "parts of characters in their order"
    );
    matcher.accept(0xc3).unwrap();
    let mask = matcher.mask().unwrap();
    assert!(is_allowed(&mask, 0xa9) && !is_allowed(&mask, u32::from(b'a')));
    let mut ended = matcher.clone();
    "\u{e9}\"}".bytes().skip(1).for_each(|b| ended.accept(u32::from(b)).unwrap());
    assert!(ended.is_over());
    let mask = ended.mask().unwrap();
    assert_eq!(mask.iter().map(|w| w.count_ones()).sum::<u32>(), 1);
    assert!(is_allowed(&mask, END));
    matcher.rollback(1).unwrap();
    assert!(matcher.accept(u32::from(b'b')).is_ok());
    assert!(matcher.accept(0xff).is_err());
}

#[test]
fn tokens_are_named_by_id_and_by_text() {
    let mut matcher = gbnf("root ::= <tool> \"x\" !<[257]>").unwrap();
    let mask = matcher.mask().unwrap();
    assert!(is_allowed(&mask, 257) && !is_allowed(&mask, u32::from(b'x')));
    [257, u32::from(b'x')].iter().for_each(|id| matcher.accept(*id).unwrap());
    let mask = matcher.mask().unwrap();
    assert!(!is_allowed(&mask, 257) && is_allowed(&mask, u32::from(b'q')));
}

#[test]
fn errors_name_line_and_column() {
    for (text, expected) in [
        ("root ::= \"a", "line 1, column 12"),
        ("root ::= a\n", "line 1, column 10: rule a is used"),
        ("x ::= \"a\"", "expected a rule root"),
        ("root ::= \"a\"\nroot2 = x", "line 2, column 7: expected ::="),
        ("root ::= [z-a]", "line 1, column 14"),
        ("root ::= \"a\"{3,2}", "at least 3"),
        ("root ::= \"a\"{2001}", "at most 2000"),
        ("root ::= \"\\ud800\"", "is no character"),
        ("root ::= <nope>", "no token of the vocabulary"),
        ("root ::= root \"a\"", "no text matches"),
        ("root ::= * \"a\"", "expected an item before"),
    ] {
        let error = gbnf(text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// What this thread has computed, whatever else the machine does.
#[cfg(target_os = "linux")]
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn hostile_sources_end_in_bounded_time() {
    let deep = |n: usize| format!("root ::= {}\"a\"{}", "(".repeat(n), ")".repeat(n));
    let chain: String = (0..9000).map(|i| format!("a{i} ::= a{} \"x\"\n", i + 1)).collect();
    let nested = |n: usize| format!("{}{{}}{}", "{\"items\":".repeat(n), "}".repeat(n));
    let twice: String = (0..60).map(|i| format!("a{i} ::= a{} a{}\n", i + 1, i + 1)).collect();
    let many: Vec<String> = (0..20_000).map(|i| format!("\"p{i}\":{{}}")).collect();
    let sources = [
        GrammarSource::Gbnf(deep(60_000)),
        GrammarSource::Gbnf(deep(99)),
        GrammarSource::Gbnf(format!("root ::= a0\n{chain}a9000 ::= \"y\"")),
        GrammarSource::Gbnf(format!("root ::= a0\n{twice}a60 ::= \"y\"")),
        GrammarSource::Gbnf("root ::= ((\"a\"{2000}){2000}){2000}".into()),
        GrammarSource::Gbnf("root ::= ((((\"a\"?)*)*)*)*".into()),
        GrammarSource::Gbnf(format!("root ::= {}", vec!["[a-z]?"; 10_000].join(" "))),
        GrammarSource::Gbnf(format!("root ::= {}", vec!["[a-z]?"; 6_000].join(" "))),
        GrammarSource::Gbnf("x".repeat(1 << 20)),
        GrammarSource::JsonSchema(nested(100)),
        GrammarSource::JsonSchema(nested(5000)),
        GrammarSource::JsonSchema(r##"{"$ref":"#"}"##.into()),
        GrammarSource::JsonSchema(
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##.into(),
        ),
        GrammarSource::JsonSchema(r#"{"type":"string","pattern":"^((a{1,1000}){1,1000}){1,1000}$"}"#.into()),
        GrammarSource::JsonSchema(r#"{"type":"string","minLength":100000000,"maxLength":2000000000}"#.into()),
        GrammarSource::JsonSchema(r#"{"type":"array","minItems":1000000000}"#.into()),
        GrammarSource::JsonSchema(format!("{{\"properties\":{{{}}}}}", many.join(","))),
        GrammarSource::JsonSchema("[".repeat(1 << 20)),
        GrammarSource::Regex("(".repeat(10_000)),
        GrammarSource::Regex("(a|b|ab)*c{1,100000}(x+x+)+y".into()),
        GrammarSource::Lark(format!("start: {}", "(".repeat(10_000))),
        GrammarSource::Lark("start: start".into()),
        GrammarSource::Lark("start: \"a\"".repeat(10_000)),
    ];
    let vocabulary = vocabulary();
    for source in &sources {
        let begun = cpu_ms();
        let end = match vocabulary.matcher(source) {
            Ok(mut matcher) => (0..50).find_map(|_| {
                let mask = matcher.mask().err().map(|e| e.to_string());
                let id = mask.is_none().then(|| matcher.mask().unwrap());
                let id = id.and_then(|mask| (0..266).find(|id| is_allowed(&mask, *id)));
                mask.or_else(|| id.and_then(|id| matcher.accept(id).err().map(|e| e.to_string())))
            }),
            Err(e) => Some(e.to_string()),
        };
        let spent = cpu_ms() - begun;
        let text: String = source.text_for_tests().chars().take(50).collect();
        println!("{spent} ms: {text}: {}", end.clone().unwrap_or_default());
        assert!(spent < 5000, "{spent} ms: {text}");
        assert!(end.is_none_or(|e| e.len() < 5000));
    }
}

#[test]
fn what_takes_too_long_to_compile_is_refused_and_says_so() {
    use std::time::Duration;
    let properties: Vec<String> = (0..400).map(|i| format!(r#""p{i}": {{"type": "integer"}}"#)).collect();
    let source =
        GrammarSource::JsonSchema(format!(r#"{{"type": "object", "properties": {{{}}}}}"#, properties.join(", ")));
    let vocabulary = vocabulary();
    let error = vocabulary.matcher_within(&source, Duration::from_millis(1)).err().unwrap().to_string();
    assert_eq!(error, "JSON schema: expected to be compiled within 1ms, found more");
    let mut matcher = vocabulary.matcher(&source).unwrap();
    // A matcher that was compiled in time is none the worse for the time that goes by then.
    assert!(matcher.mask().is_ok() && takes(&matcher, "{\"p0\":1").is_some());
}
