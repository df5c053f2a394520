//! Templates and messages that mean harm: each is one error, soon, and nothing else happens.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use pumex_chat::reply::Format;
use pumex_chat::{Error, Json, Request, Template};

fn render(source: &str) -> Result<String, Error> {
    let request = Request::new(Json::parse(r#"[{"role": "user", "content": "x"}]"#).unwrap());
    Template::parse(source)?.render(&request).map(|p| p.text)
}

#[test]
fn no_template_runs_on_or_takes_the_memory() {
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}";
    let double = |body: &str| {
        let start = "{% set ns = namespace(x='ab', l=[1], d={}) %}";
        format!("{start}{{% for i in range(200) %}}{body}{{% endfor %}}{{{{ ns.x|length }}}}")
    };
    let limits = [
        loops.to_string(),
        "{{ 'a' * 10**9 }}".to_string(),
        "{{ ('a' * 1000000) * 1000000 }}".to_string(),
        "{{ [0] * 10**9 }}".to_string(),
        "{{ [0] * 10**30 }}".to_string(),
        "{{ 'a'.ljust(10**12) }}{{ 'a'|center(10**15) }}".to_string(),
        "{{ 'a'|indent(10**10) }}".to_string(),
        "{{ [1]|tojson(indent=10**12) }}".to_string(),
        "{{ '0'.zfill(10**13) }}".to_string(),
        "{{ [1]|batch(10**12, 0)|list }}".to_string(),
        "{{ [1]|slice(10**12)|list }}".to_string(),
        double("{% set ns.x = ns.x ~ ns.x %}"),
        double("{% set ns.x = ns.x + ns.x %}"),
        double("{% set ns.x = ns.x|replace('a', ns.x) %}"),
        double("{% set ns.x = ns.x.replace('', ns.x) %}"),
        double("{% set ns.x = ns.x.join([ns.x, ns.x]) %}"),
        double("{% set ns.x = '%s%s' % (ns.x, ns.x) %}"),
        double("{% set ns.x = '{0}{0}'.format(ns.x) %}"),
        double("{% set ns.l = ns.l + ns.l %}"),
        double("{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l }}",
        double("{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l|tojson }}",
        double("{% set ns.l = [ns.l, ns.l] %}") + "{{ ns.l == [ns.l] }}{{ ns.l|string }}",
        double("{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = x %}"),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_string(),
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}".to_string(),
        "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}".to_string(),
        "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}".to_string(),
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_string(),
        "{% set l = [] %}{% set x = l.append(l) %}{{ l }}".to_string(),
        "{% set l = [] %}{% set x = l.append(l) %}{{ l|tojson }}".to_string(),
        "{% set l = [] %}{% set x = l.append(l) %}{% set m = [] %}{% set x = m.append(m) %}{{ l == m }}".to_string(),
        "{% set s = 'ab' * 5000000 %}{% for i in range(90000) %}{{ 'zz' in s }}{% endfor %}".to_string(),
        "{% set s = 'ab' * 5000000 %}{% for i in range(90000) %}{% set q = s|upper %}{% endfor %}".to_string(),
        "{% set l = range(90000)|list %}{% for i in l %}{% set x = l.insert(0, 1) %}{% set y = l|sort %}{% endfor %}".to_string(),
        "{% set l = [] %}{% for i in range(99999) %}{% for j in range(999) %}{{ l.append('a') }}{% endfor %}{% endfor %}".to_string(),
    ];
    for source in limits {
        let began = Instant::now();
        let made = render(&source);
        assert!(matches!(made, Err(Error::Limit(_))), "{source}: {:?}", made.map(|t| t.len()));
        println!("{:?} {}", began.elapsed(), &source[..source.len().min(90)]);
        assert!(began.elapsed() < Duration::from_secs(20), "{source}: {:?}", began.elapsed());
    }
}

#[test]
fn nesting_is_bounded_and_freed() {
    // Deeper than any stack; nothing prints it.
    let deeper = "{% for i in range(99999) %}{% for j in range(10) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
    let nested = format!("{{% set ns = namespace(x=[]) %}}{deeper}done");
    assert_eq!(render(&nested).unwrap(), "done");
    let dicts = "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}done";
    assert_eq!(render(dicts).unwrap(), "done");
    for source in [
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(100_000)),
        format!("{{{{ a{} }}}}", ".b".repeat(100_000)),
        format!("{{{{ a{} }}}}", "|upper".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(100_000)),
        "{% if 1 %}".repeat(100_000),
        "{% for x in y %}".repeat(100_000),
        "{% macro m() %}".repeat(100_000),
        format!("{{% set {}a{} = 1 %}}", "(".repeat(100_000), ")".repeat(100_000)),
        "{{".repeat(100_000),
        "{%".to_string(),
        "{#".to_string(),
        "{{ '\\".to_string(),
        "{% raw %}".to_string(),
    ] {
        assert!(matches!(render(&source), Err(Error::Syntax { .. })), "{}", &source[..source.len().min(60)]);
    }
}

#[test]
fn messages_of_a_megabyte_are_read_or_refused() {
    let began = Instant::now();
    let deep = "[".repeat(500_000) + &"]".repeat(500_000);
    assert!(matches!(Json::parse(&deep), Err(Error::Json(_))));
    assert!(matches!(Json::parse(&"{\"a\":".repeat(200_000)), Err(Error::Json(_))));
    assert!(Request::from_json(&format!("{{\"messages\": {deep}}}")).is_err());
    // As deep as is read.
    let levels = "{\"a\": ".repeat(250) + "1" + &"}".repeat(250);
    let request = Request::from_json(&format!("{{\"messages\": [{levels}]}}")).unwrap();
    let dumped = Template::parse("{{ messages|tojson }}").unwrap().render(&request).unwrap();
    assert_eq!(dumped.text, format!("[{levels}]"));
    // Wide: 100,000 messages, and one of a megabyte.
    let message = "{\"role\": \"user\", \"content\": \"hi\"}";
    let wide = format!("{{\"messages\": [{}]}}", vec![message; 30_000].join(","));
    let chatml = Template::parse(&pumex_chat::builtin::builtin("chatml").unwrap()).unwrap();
    assert!(chatml.render(&Request::from_json(&wide).unwrap()).unwrap().text.len() > 890_000);
    let long = Json::Array(vec![Json::Object(vec![
        ("role".into(), Json::Str("user".into())),
        ("content".into(), Json::Str("<|im_end|>".repeat(100_000))),
    ])]);
    let prompt = chatml.render(&Request::new(long)).unwrap();
    assert_eq!(prompt.from_outside.len(), 1);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_hostile_template_has_a_format_too() {
    for source in [
        "{{ 'a' * 10**9 }}",
        "{{ raise_exception('no') }}",
        "{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}",
    ] {
        let began = Instant::now();
        assert_eq!(Format::of(&Template::parse(source).unwrap()), Format::plain());
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
