"""JSON schemas by a seeded generator: every answer is judged by `jsonschema`. What the server says that it does not hold to may be
broken; nothing else may, and only a schema that allows nothing is refused."""

import json
import os
import random
import urllib.error
import urllib.request

from jsonschema import Draft202012Validator

from conftest import QUESTION

COUNT = int(os.environ.get("PUMEX_SCHEMAS", "300"))
JUDGE = Draft202012Validator
FORMATS = ["date", "date-time", "email", "uuid", "ipv4", "hostname", "color"]
PATTERNS = ["^[a-z]+$", "^[A-Z]{2}[0-9]{3}$", "^(foo|bar)$", "[0-9]", r"^\d{3}-\d{4}$", r"\bx\b", "^(?!-)[a-z-]+$"]
NAMES = ["name", "id", "count", "zip code", "x-y", "ünï", "$ref", "type", "a/b", 'q"t']
VALUES = [None, True, False, 1, 0, -2, 1.5, "x", "", 'é"', [], [1], {}, {"a": 1}, "\n", "日本"]
NUMBERS = [0, 1, -1, 2, 3, 10, 100, -100, 0.5, 1.5, 99.9, 1000000, 2**63 - 1]
BESIDE = [
    {},
    {},
    {"description": "d"},
    {"type": "object"},
    {"nullable": True},
    {"required": ["b"]},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
]


class Maker:
    """Schemas of one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, chance):
        return self.random.random() < chance

    def of(self, list_):
        return self.random.choice(list_)

    def number(self):
        schema = {"type": self.of(["integer", "number"])}
        least, most = sorted([self.of(NUMBERS), self.of(NUMBERS)])
        if self.some(0.5):
            schema[self.of(["minimum", "exclusiveMinimum"])] = least
        if self.some(0.5):
            schema[self.of(["maximum", "exclusiveMaximum"])] = most + 2
        if self.some(0.2):
            schema["multipleOf"] = self.of([1, 2, 5, 0.5, 0.25])
        return schema

    def text(self):
        schema = {"type": "string"}
        kind = self.random.randrange(4)
        if kind == 0:
            schema["pattern"] = self.of(PATTERNS)
        elif kind == 1:
            schema["format"] = self.of(FORMATS)
        elif kind == 2:
            schema["minLength"] = self.random.randrange(3)
            schema["maxLength"] = schema["minLength"] + self.random.randrange(4)
        return schema

    def object(self, depth):
        names = self.random.sample(NAMES, self.random.randrange(4))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if self.some(0.7):
            schema["required"] = self.random.sample(names, self.random.randrange(len(names) + 1))
        kind = self.random.randrange(8)
        if kind < 3:
            schema["additionalProperties"] = False
        elif kind == 3:
            schema["additionalProperties"] = self.schema(0)
        elif kind == 4:
            schema["patternProperties"] = {self.of(["^x-", "_id$", "[0-9]"]): self.schema(0)}
        for key, chance, values in [
            ("minProperties", 0.1, [0, 1, 2]),
            ("maxProperties", 0.1, [1, 2, 3]),
            ("propertyNames", 0.06, [{"type": "string"}, {"maxLength": 8}, {"pattern": "^[a-z]+$"}]),
            ("not", 0.05, [{"required": ["id"]}, {"type": "null"}]),
            ("if", 0.04, [{"required": ["id"]}]),
            ("unevaluatedProperties", 0.04, [False]),
        ]:
            if self.some(chance):
                schema[key] = self.of(values)
        if names and self.some(0.07):
            schema["dependentRequired"] = {names[0]: ["other"]}
        return schema

    def list(self, depth):
        schema = {"type": "array", "items": self.schema(depth - 1)}
        least = self.random.randrange(3)
        for key, chance, value in [
            ("prefixItems", 0.2, [self.schema(depth - 1)]),
            ("minItems", 0.4, least),
            ("maxItems", 0.6, least + self.random.randrange(3)),
            ("uniqueItems", 0.1, True),
            ("contains", 0.06, self.schema(0)),
        ]:
            if self.some(chance):
                schema[key] = value
        return schema

    def schema(self, depth):
        kind = self.random.randrange(7 if depth <= 0 else 15)
        if kind < 2:
            return self.number()
        if kind < 4:
            return self.text()
        if kind < 7:
            values = self.random.sample(VALUES, self.random.randrange(1, 4))
            return self.of([{"enum": values}, {"const": values[0]}, {"type": self.of(["null", "boolean"])}])
        if kind < 10:
            return self.object(depth)
        if kind < 12:
            return self.list(depth)
        if kind == 12:
            return {"$ref": "#/$defs/" + self.of(["plain", "node", "x~1y"]), **self.of(BESIDE[:3])}
        some = [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]
        return {self.of(["anyOf", "oneOf"]): some, **self.of(BESIDE)} if kind == 13 else {"allOf": some[:1], **self.of(BESIDE)}

    def whole(self):
        schema = self.of([self.object, self.list])(2)
        node = {"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/$defs/node"}], "nullable": True}}}
        return {**schema, "$defs": {"plain": self.schema(0), "node": node, "x/y": self.text()}}


def ask(server, schema, seed):
    """The answer, why it ended and what it is not held to; or an error's text."""
    answer_format = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    body = {"messages": QUESTION, "max_tokens": 250, "seed": seed, "response_format": answer_format}
    request = urllib.request.Request(
        server.address + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            choice = json.load(response)["choices"][0]
            return choice["message"]["content"], choice["finish_reason"], response.headers["x-pumex-warning"] or "", None
    except urllib.error.HTTPError as error:
        return None, None, "", error.read().decode()


def keywords(error):
    """Of an error and of those below it, and of what it stands in."""
    found = {error.validator, *(part for part in error.absolute_schema_path if isinstance(part, str))}
    return found.union(*(keywords(inner) for inner in error.context or ()))


def with_null(value):
    """OpenAPI's `nullable` in words that the judge knows."""
    if isinstance(value, list):
        return [with_null(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {key: with_null(one) for key, one in value.items()}
    return {"anyOf": [out, {"type": "null"}]} if out.pop("nullable", None) is True else out


def test_answers_are_of_their_schemas(server):
    judged, wrong = 0, []
    for seed in range(COUNT):
        schema = Maker(seed).whole()
        text, ended, warning, error = ask(server, schema, seed)
        if error is not None:
            # One that allows nothing; that is told by name.
            if "nsatisfiable" not in error and "allows nothing" not in error:
                wrong.append((seed, error[:300]))
            continue
        if ended != "stop":
            continue
        judged += 1
        judge = JUDGE(with_null(schema), format_checker=JUDGE.FORMAT_CHECKER)
        for error in judge.iter_errors(json.loads(text)):
            told = [word for word in keywords(error) if f"{word} of " in warning]
            # Whether a part that is not held to is met decides about the lists that it stands in.
            lists = keywords(error) & {"anyOf", "oneOf", "allOf", "if"} and warning
            if not told and not lists:
                wrong.append((seed, text[:200], error.message[:200], warning[:200]))
    assert not wrong, wrong[:10]
    assert judged > COUNT / 2, f"{judged} of {COUNT} answers ended"
