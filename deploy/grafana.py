#!/usr/bin/env python3
"""Writes grafana.json, a dashboard over /metrics of `pumex serve --metrics`: `python3 deploy/grafana.py`.

Import the JSON in Grafana (Dashboards, New, Import) and choose the Prometheus that scrapes the servers. All queries are by
`instance`, so one dashboard serves any number of replicas.
"""

import json
import pathlib

BY = '{instance=~"$instance"}'


def rate(name):
    return f"rate({name}{BY}[$__rate_interval])"


def quantile(q, name):
    return f"histogram_quantile({q}, sum by (le) (rate({name}_bucket{BY}[$__rate_interval])))"


def quantiles(name):
    return [(quantile(q, name), f"p{round(100 * q)}") for q in (0.5, 0.9, 0.99)]


ROWS = [
    (
        "Requests",
        [
            ("Running", "short", [(f"llamacpp:requests_processing{BY}", "{{instance}}")]),
            ("Queue", "short", [(f"llamacpp:requests_deferred{BY}", "{{instance}}")]),
            (
                "Ended per second",
                "reqps",
                [
                    (f"sum({rate('pumex:requests_done_total')})", "well"),
                    (f"sum({rate('pumex:requests_cancelled_total')})", "client went away"),
                    (f"sum({rate('pumex:requests_failed_total')})", "failed"),
                    (f"sum({rate('pumex:requests_refused_total')})", "queue full"),
                ],
            ),
        ],
    ),
    (
        "Throughput",
        [
            ("Generated tokens per second", "short", [(rate("llamacpp:tokens_predicted_total"), "{{instance}}")]),
            ("Prompt tokens computed per second", "short", [(rate("llamacpp:prompt_tokens_total"), "{{instance}}")]),
            ("Steps per second", "short", [(rate("llamacpp:n_decode_total"), "{{instance}}")]),
            ("Sequences per step", "short", [(f"llamacpp:n_busy_slots_per_decode{BY}", "{{instance}}")]),
        ],
    ),
    (
        "Times",
        [
            ("To the first token", "s", quantiles("vllm:time_to_first_token_seconds")),
            ("Between tokens", "s", quantiles("vllm:inter_token_latency_seconds")),
            ("Of a whole answer", "s", quantiles("vllm:e2e_request_latency_seconds")),
            ("In the queue", "s", quantiles("vllm:request_queue_time_seconds")),
        ],
    ),
    (
        "Cache",
        [
            ("Blocks that running requests hold", "percentunit", [(f"vllm:kv_cache_usage_perc{BY}", "{{instance}}")]),
            (
                "Prompt tokens found in the cache",
                "percentunit",
                [(f"{rate('vllm:prefix_cache_hits_total')} / {rate('vllm:prefix_cache_queries_total')}", "{{instance}}")],
            ),
            ("Requests that had to make room per second", "short", [(rate("vllm:num_preemptions_total"), "{{instance}}")]),
            (
                "Draft tokens that stood",
                "percentunit",
                [
                    (
                        f"{rate('llamacpp:spec_decode_num_accepted_tokens_total')}"
                        f" / {rate('llamacpp:spec_decode_num_draft_tokens_total')}",
                        "{{instance}}",
                    )
                ],
            ),
        ],
    ),
]
"""Title, then panels: title, unit, and queries with their legends."""


def panel(number, title, unit, queries, place):
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": source, "expr": query, "legendFormat": legend}
            for i, (query, legend) in enumerate(queries)
        ],
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 12, "lineWidth": 1, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def dashboard():
    panels, number, y = [], 1, 0
    for title, row in ROWS:
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        panels.append({"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place})
        number, y, width = number + 1, y + 1, 24 // len(row)
        for i, (name, unit, queries) in enumerate(row):
            panels.append(panel(number, name, unit, queries, {"x": i * width, "y": y, "w": width, "h": 8}))
            number += 1
        y += 8
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance",
            "label": "Server",
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": "label_values(llamacpp:n_decode_total, instance)",
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
        },
    ]
    return {
        "uid": "pumex",
        "title": "Pumex",
        "tags": ["pumex"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables},
        "panels": panels,
    }


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("grafana.json")
    path.write_text(json.dumps(dashboard(), indent=2) + "\n")
