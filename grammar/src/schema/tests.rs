//! What schemas become.

use super::*;

fn of(given: Value) -> Value {
    let found = normal(&given, None, false).unwrap();
    assert!(found.dropped.is_empty(), "{:?}", found.dropped);
    found.schema
}

fn unenforced_keywords(given: Value) -> Vec<String> {
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
    assert_eq!(unenforced_keywords(json!({"$ref": "#/nowhere"})).len(), 1);
    assert_eq!(unenforced_keywords(json!({"$ref": "https://example.com/x.json"})).len(), 1);
}

#[test]
fn annotations_and_older_drafts_are_understood() {
    let annotated =
        json!({"$schema": "x", "title": "t", "type": ["string", "null"], "format": "color", "x-own": 3, "default": 1});
    assert_eq!(of(annotated), json!({"type": ["string", "null"]}));
    assert_eq!(of(json!({"type": "string", "format": "date"})), json!({"type": "string", "format": "date"}));
    let time = of(json!({"type": "string", "format": "date-time"}));
    assert_eq!(time["pattern"], "^[^:]*:[^:]*:[0-5]", "no leap seconds");
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
    for (keyword, value) in [
        ("not", json!({"required": ["a"]})),
        ("if", json!({"type": "null"})),
        ("contains", json!({})),
        ("uniqueItems", json!(true)),
    ] {
        assert_eq!(unenforced_keywords(json!({ keyword: value })).len(), 1, "{keyword}");
    }
    assert!(unenforced_keywords(json!({"uniqueItems": false})).is_empty());
    let one = |a: Value, b: Value| unenforced_keywords(json!({"oneOf": [a, b]})).len();
    assert_eq!(one(json!({"type": "number"}), json!({"type": "integer"})), 1);
    assert_eq!(one(json!({"type": "string"}), json!({"type": "integer"})), 0);
    let kind = |k: &str| json!({"properties": {"kind": {"const": k}}, "required": ["kind"]});
    assert_eq!((one(kind("a"), kind("b")), one(kind("a"), kind("a"))), (0, 1));
    let has = |name: &str, must: Value, more: Value| json!({"properties": {name: {}}, "required": must, "additionalProperties": more});
    let open = Value::Null;
    assert_eq!(one(has("a", json!(["a"]), open.clone()), has("b", json!(["b"]), open.clone())), 0);
    assert_eq!(
        one(has("a", json!([]), open.clone()), has("b", json!(["b"]), open.clone())),
        1,
        "b's are of the open a"
    );
    assert_eq!(one(has("a", json!([]), json!(false)), has("b", json!(["b"]), open)), 0, "a says that it is shut");
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

#[test]
fn what_is_not_of_a_type_is_of_the_others() {
    let not =
        |kind: Value| of(json!({"type": ["string", "number", "null"], "not": {"type": kind, "description": "d"}}));
    assert_eq!(not(json!("null")), json!({"type": ["string", "number"]}));
    assert_eq!(not(json!(["string", "null"])), json!({"type": "number"}));
    assert_eq!(not(json!(["string", "number", "null"])), json!(false));
    assert_eq!(
        of(json!({"not": {"type": "null"}})),
        json!({"type": ["boolean", "number", "string", "array", "object"]})
    );
    assert_eq!(of(json!({"not": {"type": "number"}, "type": "integer"})), json!(false));
    assert_eq!(of(json!({"properties": {"a": {"not": {}}}}))["properties"], json!({"a": false}));
    assert_eq!(
        unenforced_keywords(json!({"not": {"type": "integer"}})).len(),
        1,
        "a number that is no integer is no type"
    );
}

#[test]
fn null_may_stand_beside_references_and_lists() {
    let schema = |one: Value| json!({"properties": {"a": one}, "$defs": {"x": {"type": "integer"}}});
    let a = |one: Value| of(schema(one))["properties"]["a"].clone();
    let none = json!({"type": "null"});
    let reference = json!({"$ref": "#/$defs/d0"});
    assert_eq!(a(json!({"$ref": "#/$defs/x", "nullable": true})), json!({"anyOf": [reference, none]}));
    assert_eq!(
        a(json!({"allOf": [{"$ref": "#/$defs/x"}], "nullable": true, "title": "t"})),
        json!({"anyOf": [reference, none]})
    );
    assert_eq!(a(json!({"allOf": [{"$ref": "#/$defs/x"}], "description": "d"})), reference);
    assert_eq!(a(json!({"nullable": true})), json!({}), "anything may be null");
    assert_eq!(a(json!({"const": 1, "nullable": true})), json!({"anyOf": [{"const": 1}, none]}));
    assert_eq!(a(json!({"$ref": "#/$defs/x", "type": "integer"})), reference, "a type that it has anyway");
}

#[test]
fn what_stands_beside_a_reference_to_itself_goes_only_where_it_cannot_be_compiled() {
    let node = json!({"properties": {"next": {"$ref": "#", "required": ["b"]}}});
    assert_eq!(of(node.clone())["properties"]["next"]["required"], json!(["b"]));
    let always = |_: &Value| true;
    let tried = normal(&node, Some(&always), true).unwrap();
    assert_eq!(tried.schema["properties"]["next"], json!({"$ref": "#/$defs/d0"}));
    assert_eq!(tried.dropped.len(), 1, "{:?}", tried.dropped);
    let other =
        json!({"properties": {"a": {"$ref": "#/$defs/x", "required": ["b"]}}, "$defs": {"x": {"type": "object"}}});
    assert!(normal(&other, Some(&always), true).unwrap().dropped.is_empty(), "one that leads elsewhere");
}

#[test]
fn counts_of_properties_are_held_to_where_they_can_be() {
    let shut = |more: Value| {
        let mut all = json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": false});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    assert_eq!(of(shut(json!({"minProperties": 1, "maxProperties": 2}))), shut(json!({})), "they say nothing");
    assert_eq!(of(shut(json!({"maxProperties": 1})))["maxProperties"], 1);
    let never = |_: &Value| false;
    let tried = normal(&shut(json!({"minProperties": 2, "maxProperties": 1})), Some(&never), true).unwrap();
    assert_eq!((tried.schema, tried.dropped.len()), (shut(json!({})), 2));
    let must =
        json!({"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["c"]}, "additionalProperties": false});
    assert_eq!(of(must)["properties"], json!({"b": {}}), "what needs another that cannot be there cannot be there");
    let part = json!({"allOf": [shut(json!({"maxProperties": 1})), {"type": "object"}]});
    let always = |_: &Value| true;
    assert_eq!(
        normal(&part, Some(&always), true).unwrap().dropped.len(),
        1,
        "what is merged with others is not tried alone"
    );
    let names = json!({"type": "object", "propertyNames": {"maxLength": 3}});
    assert_eq!(of(names)["patternProperties"], json!({"^[\\s\\S]{0,3}$": true}));
    let words =
        json!({"type": "integer", "minimum": -9_223_372_036_854_775_808_i64, "maximum": 9_223_372_036_854_775_807_i64});
    let most = 9_223_372_036_854_774_784_i64;
    assert_eq!(of(words), json!({"type": "integer", "minimum": -most, "maximum": most}));
}
