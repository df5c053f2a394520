// Which positions a row sees, and what becomes of its scores: plan/src/attention.rs. Needs `params` and, of push constants, `heads`,
// `table_at`, `window`, `soft_cap`, `alibi` and `sinks`.
#include "words/mask.glsl"
layout(constant_id = 16) const uint MASK = MASK_CAUSAL;
layout(constant_id = 17) const uint RULES = 0; // those that there are: RULE_*
const float LOG2_E = 1.44269504;

// Where the block table of a row is, of the layer's kind of state.
uint table_of(uint row) { return step_table(params, row) + table_at; }
// Positions of the source of a row's sequence.
uint source_of(uint row) { return params.w[params.w[STEP_SOURCES_AT] + step_seq(params, row)]; }
// The first position that a row, which is at `pos`, sees.
uint first_seen(uint row, uint pos) {
    if (MASK == MASK_ANSWER) return source_of(row);
    if (MASK == MASK_WINDOW || MASK == MASK_GROUP_WINDOW) return pos + 1 - min(window, pos + 1);
    if (MASK == MASK_CHUNK) return pos / window * window;
    if (MASK == MASK_NEAR) return pos - min(window, pos);
    return 0;
}
// One past the last position that a row sees: its own, the last of its sequence in this step, of its group, or of its source.
uint end_seen(uint row) {
    if (MASK == MASK_SOURCE) return source_of(row);
    uint pos = step_pos(params, row);
    if (MASK == MASK_GROUP || MASK == MASK_GROUP_WINDOW) return max(pos + 1, step_medium(params, row, MEDIUM_END));
    if (MASK != MASK_FULL && MASK != MASK_NEAR) return pos + 1;
    const uint most = MASK == MASK_NEAR ? pos + window : 0xffffffff;
    const uint seq = step_seq(params, row), n = params.w[STEP_ROWS];
    for (uint i = 0; i < n; i++) pos = max(pos, step_seq(params, i) == seq ? step_pos(params, i) : 0);
    return min(pos, most) + 1;
}

// ALiBi's slope of a head.
float slope_of(uint h) {
    const uint n = 1u << findMSB(heads);
    return exp2(-alibi * (h < n ? float(h + 1) / float(n) : float(2 * (h - n) + 1) / float(2 * n)));
}
// The score that a row at `own` gives head h's key at `pos`, scale and all, by the rules.
float ruled(float score, uint h, uint own, uint pos) {
    const uint distance = own > pos ? own - pos : pos - own;
    if ((RULES & RULE_SOFT_CAP) != 0) score = soft_cap * tanh(clamp(score / soft_cap, -15.0, 15.0));
    if ((RULES & RULE_ALIBI) != 0) score -= slope_of(h) * float(distance);
    if ((RULES & RULE_BIASES) != 0) {
        const uint reach = min(distance, BIAS_REACH), at = own > pos ? BIAS_REACH - reach : BIAS_REACH + reach;
        score += F32(sinks).v[h * (2 * BIAS_REACH + 1) + at];
    }
    return score;
}
bool has_sinks() { return (RULES & RULE_SINKS) != 0; }
