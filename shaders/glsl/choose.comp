// logits [n, EXPERTS] -> each row's experts by any rule, in the layout of route.comp. One row per workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(constant_id = 3) const uint GATING = 0; // GATING_*
layout(constant_id = 4) const uint BIASED = 0;
layout(constant_id = 5) const uint GROUPS = 1; // of experts
layout(constant_id = 6) const uint GROUPS_USED = 1;
layout(constant_id = 7) const uint DIVIDED = 0; // 1: weights are divided by their sum
layout(constant_id = 8) const uint SHARING = 1; // neighbours among EXPERTS that stand for one that is taken
layout(constant_id = 9) const uint TABLE = 0;   // 1: a row's id says which it takes
#include "push/choose.glsl"
#include "lib/act.glsl"
const uint LEN = EXPERTS / GROUPS;
shared float scores[EXPERTS], wanted[EXPERTS], best[GROUPS], weight_of[USED];
shared uint chosen[USED];

// Numbers as integers in the same order, which is total: every place has one expert.
uint key(float x) {
    const uint bits = floatBitsToUint(x);
    return bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}

void main() {
    const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) { // as in route.comp
        for (uint k = t; k < USED; k += size) route.v[row * 4 * USED + k] = uintBitsToFloat(0);
        return;
    }
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
        wanted[i] = x + (BIASED == 1 ? bias.v[i] : 0.0);
    }
    barrier();
    if (GROUPS > 1) {
        for (uint g = t; g < GROUPS; g += size) {
            float first = wanted[g * LEN], second = uintBitsToFloat(0xff800000u);
            for (uint i = 1; i < LEN; i++) {
                const float x = wanted[g * LEN + i];
                second = max(second, min(first, x));
                first = max(first, x);
            }
            best[g] = LEN > 1 ? first + second : first;
        }
        barrier();
        for (uint i = t; i < EXPERTS; i += size) {
            uint rank = 0;
            const uint g = i / LEN, mine = key(best[g]);
            for (uint o = 0; o < GROUPS; o++) rank += uint(key(best[o]) > mine || (key(best[o]) == mine && o < g));
            if (rank >= GROUPS_USED) wanted[i] = uintBitsToFloat(0xff800000u);
        }
        barrier();
    }
    if (TABLE == 1) {
        uint id = step_token(params, row);
        if (id == TOKEN_SAMPLED) id = sampled.v[step_seq(params, row)];
        for (uint k = t; k < USED; k += size) {
            chosen[k] = table.v[id * USED + k];
            weight_of[k] = scores[chosen[k]];
        }
    }
    for (uint i = t; TABLE == 0 && i < EXPERTS; i += size) {
        uint rank = 0;
        const uint mine = key(wanted[i]);
        for (uint o = 0; o < EXPERTS; o++) {
            const uint other = key(wanted[o]);
            rank += uint(other > mine || (other == mine && o < i));
        }
        if (rank < USED) {
            chosen[rank] = i / SHARING;
            weight_of[rank] = scores[i / SHARING];
        }
    }
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
        route.v[at] = uintBitsToFloat(chosen[k]);
        route.v[at + USED] = x * scale;
        route.v[at + 2 * USED] = 1.0;
        route.v[at + 3 * USED] = 1.0;
    }
}
