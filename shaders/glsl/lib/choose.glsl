// Logits of a row -> its experts by any rule. Needs the constants of choose.comp, the route and what push constants say of the rule.
#include "lib/top_k.glsl"
#include "lib/act.glsl"
const uint LEN = EXPERTS / EXPERT_GROUPS;
shared float scores[EXPERTS], best[EXPERT_GROUPS], weight_of[USED];

// Ranks the scores of the row's logits, with their biases. All threads call it.
void rank_scores(uint row) {
    const uint t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    float most = logits.v[row * EXPERTS], all = 0.0;
    if (GATING == GATING_SOFTMAX) { // each subgroup does all of it
        for (uint i = gl_SubgroupInvocationID; i < EXPERTS; i += gl_SubgroupSize) most = max(most, logits.v[row * EXPERTS + i]);
        most = subgroupMax(most);
        for (uint i = gl_SubgroupInvocationID; i < EXPERTS; i += gl_SubgroupSize) all += exp(logits.v[row * EXPERTS + i] - most);
        all = subgroupAdd(all);
    }
    for (uint i = t; i < EXPERTS; i += size) {
        float x = logits.v[row * EXPERTS + i];
        if (GATING == GATING_SOFTMAX) x = exp(x - most) / all;
        if (GATING == GATING_SIGMOID) x = sigmoid(x);
        if (GATING == GATING_SQRT_SOFTPLUS) x = sqrt(softplus(x));
        scores[i] = x;
        put_logit(i, x + (BIASED == 1 ? bias.v[i] : 0.0));
    }
    if (EXPERT_GROUPS > 1) {
        barrier();
        for (uint g = t; g < EXPERT_GROUPS; g += size) {
            float first = logit_at(g * LEN), second = uintBitsToFloat(0xff800000u);
            for (uint i = 1; i < LEN; i++) {
                const float x = logit_at(g * LEN + i);
                second = max(second, min(first, x));
                first = max(first, x);
            }
            best[g] = LEN > 1 ? first + second : first;
        }
        barrier();
        for (uint i = t; i < EXPERTS; i += size) {
            uint rank = 0;
            const uint g = i / LEN, mine = key_of(best[g]);
            for (uint o = 0; o < EXPERT_GROUPS; o++) {
                const uint other = key_of(best[o]);
                rank += uint(other > mine || (other == mine && o < g));
            }
            if (rank >= GROUPS_USED) put_logit(i, uintBitsToFloat(0xff800000u));
        }
    }
    rank_keys();
}

// Writes the experts in `chosen`, SHARING numbers of which stand for one, with their weights.
void write_route(uint row) {
    const uint t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    for (uint k = t; k < USED; k += size) weight_of[k] = scores[chosen[k] / SHARING];
    barrier();
    // Few numbers, which every thread goes through: the first is not the largest where a bias chose.
    float sum = 0.0, largest = weight_of[0], taken = 0.0;
    if (GATING == GATING_SOFTMAX_OF_TAKEN) {
        for (uint k = 1; k < USED; k++) largest = max(largest, weight_of[k]);
        for (uint k = 0; k < USED; k++) taken += exp(weight_of[k] - largest);
        sum = 1.0;
    } else {
        for (uint k = 0; k < USED; k++) sum += weight_of[k];
    }
    for (uint k = t; k < USED; k += size) {
        float x = GATING == GATING_SOFTMAX_OF_TAKEN ? exp(weight_of[k] - largest) / taken : weight_of[k];
        if (DIVIDED == 1) x /= max(sum, least_sum);
        const uint at = row * 4 * USED + k;
        route.v[at] = uintBitsToFloat(chosen[k] / SHARING);
        route.v[at + USED] = x * scale;
        route.v[at + 2 * USED] = 1.0;
        route.v[at + 3 * USED] = 1.0;
    }
}
