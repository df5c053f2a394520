//! What schemas become.

use super::*;

fn of(given: Value) -> Value {
    let found = normal(&given, None, false).unwrap();
    assert!(found.dropped.is_empty(), "{:?}", found.dropped);
    found.schema
}

fn dropped(given: Value) -> Vec<String> {
    normal(&given, None, false).unwrap().dropped
}

#[test]
fn objects_have_the_properties_that_are_named_and_no_others() {
    let inner = json!({"type": "object", "properties": {"b": {}}});
    let shut = json!({"type": "object", "properties": {"b": {}}, "additionalProperties": false});
    let whole = |one: &Value, more: Value| {
        let mut all = json!({"type": "object", "properties": {"a": {"type": "array", "items": one}}});
        all["additionalProperties"] = more;
        all
    };
    assert_eq!(of(whole(&inner, Value::Null)), whole(&shut, false.into()));
    assert_eq!(of(whole(&inner, true.into())), whole(&shut, true.into()), "what a schema says holds");
    assert_eq!(of(json!({"anyOf": [inner, {"type": "null"}]})), json!({"anyOf": [shut, {"type": "null"}]}));
    for open in [json!({"type": "object"}), json!(true), json!({"type": "object", "minProperties": 1})] {
        assert_eq!(of(open.clone()), open);
    }
    let both = json!({"type": "object", "properties": {"a": {}}, "allOf": [{"$ref": "#/$defs/x"}],
        "$defs": {"x": {"properties": {"b": {"type": "integer"}}, "required": ["b"]}}});
    assert_eq!(
        of(both),
        json!({"type": "object", "allOf": [{"$ref": "#/$defs/d0"}], "properties": {"a": {}, "b": true},
            "additionalProperties": false, "$defs": {"d0": {"properties": {"b": {"type": "integer"}}, "required": ["b"]}}})
    );
}

#[test]
fn references_are_read_as_pointers_of_uris_are() {
    let schema = json!({"properties": {
        "a": {"$ref": "#/definitions/x~1y%20z"}, "b": {"$ref": "#here"}, "c": {"$ref": "#/properties/d/items"},
        "d": {"items": {"type": "integer"}}, "e": {"$ref": "#"}},
        "definitions": {"x/y z": {"type": "string"}, "n": {"$anchor": "here", "type": "null"}}});
    let found = of(schema);
    let at = |name: &str| {
        let target = found["properties"][name]["$ref"].as_str().unwrap();
        found.pointer(&target[1..]).unwrap().clone()
    };
    assert_eq!([at("a"), at("b"), at("c")], ["string", "null", "integer"].map(|kind| json!({"type": kind})));
    assert_eq!(at("e")["properties"]["e"], found["properties"]["e"], "a schema that holds itself");
    assert_eq!(dropped(json!({"$ref": "#/nowhere"})).len(), 1);
    assert_eq!(dropped(json!({"$ref": "https://example.com/x.json"})).len(), 1);
}

#[test]
fn annotations_and_older_drafts_are_understood() {
    let annotated =
        json!({"$schema": "x", "title": "t", "type": ["string", "null"], "format": "color", "x-own": 3, "default": 1});
    assert_eq!(of(annotated), json!({"type": ["string", "null"]}));
    assert_eq!(of(json!({"type": "string", "format": "date"})), json!({"type": "string", "format": "date"}));
    let old = json!({"type": "number", "minimum": 3, "exclusiveMinimum": true, "maximum": 1.7976931348623157e308});
    assert_eq!(of(old), json!({"type": "number", "exclusiveMinimum": 3}));
    let tuple = json!({"items": [{"type": "null"}], "additionalItems": false});
    assert_eq!(of(tuple), json!({"prefixItems": [{"type": "null"}], "items": false}));
    assert_eq!(of(json!({"type": "string", "nullable": true})), json!({"type": ["string", "null"]}));
    assert_eq!(of(json!({"required": null, "properties": null, "type": "object"})), json!({"type": "object"}));
    let names = json!({"propertyNames": {"pattern": "^x"}, "additionalProperties": {"type": "null"}});
    assert_eq!(of(names), json!({"additionalProperties": false, "patternProperties": {"^x": {"type": "null"}}}));
    let must = json!({"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}});
    assert_eq!(of(must)["required"], json!(["b"]));
}

#[test]
fn what_is_not_held_to_is_told_and_what_is_no_schema_refused() {
    for (keyword, value) in
        [("not", json!({})), ("if", json!({"type": "null"})), ("contains", json!({})), ("uniqueItems", json!(true))]
    {
        assert_eq!(dropped(json!({ keyword: value })).len(), 1, "{keyword}");
    }
    assert!(dropped(json!({"uniqueItems": false})).is_empty());
    let one = |a: Value, b: Value| dropped(json!({"oneOf": [a, b]})).len();
    assert_eq!(one(json!({"type": "number"}), json!({"type": "integer"})), 1);
    assert_eq!(one(json!({"type": "string"}), json!({"type": "integer"})), 0);
    let kind = |k: &str| json!({"properties": {"kind": {"const": k}}, "required": ["kind"]});
    assert_eq!((one(kind("a"), kind("b")), one(kind("a"), kind("a"))), (0, 1));
    for bad in [
        json!(3),
        json!({"type": "nonsense"}),
        json!({"properties": {"a": "x"}}),
        json!({"anyOf": {}}),
        json!({"enum": 1}),
    ] {
        assert!(normal(&bad, None, false).is_err(), "{bad}");
    }
    let never = |_: &Value| false;
    let found = normal(&json!({"type": "string", "pattern": "(?!a)"}), Some(&never), true).unwrap();
    assert_eq!((found.schema, found.dropped.len()), (json!({"type": "string"}), 1));
    for wrong in [json!({"pattern": "^([a-z$"}), json!({"$ref": "#/nowhere"})] {
        assert!(normal(&wrong, Some(&never), true).is_err(), "{wrong}");
        assert_eq!(normal(&wrong, Some(&never), false).unwrap().dropped.len(), 1, "{wrong}");
    }
}
