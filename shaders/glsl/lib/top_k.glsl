// The USED of EXPERTS with the largest logits. All threads put logits and rank them; each expert's rank says where it stands, so
// that no turn waits for another.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

const uint QUADS = (EXPERTS + 3) / 4;
const float LEAST_SUM = 6.103515625e-5; // of the weights, that they are divided by
// Logits as integers in the same order, which is total: whatever they are, every place has one expert. The last places that
// no expert has hold the least of all.
shared uvec4 keys[QUADS];
const uint SHARES = gl_WorkGroupSize.x < 2 * EXPERTS ? 1 : gl_WorkGroupSize.x < 4 * EXPERTS ? 2 : 4; // threads of an expert
shared uint ranks[EXPERTS];
shared uint chosen[USED];
shared float weight_of[USED];

float logit_at(uint i) {
    uint key = keys[i / 4][i % 4];
    return uintBitsToFloat(key ^ (int(key) < 0 ? 0x80000000u : 0xffffffffu));
}
void put_logit(uint i, float logit) {
    uint bits = floatBitsToUint(logit);
    keys[i / 4][i % 4] = bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}
float weights_sum; // of weight_of

// The first of equal logits wins.
void rank_experts() {
    uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID;
    if (t < 4 * QUADS - EXPERTS) keys[QUADS - 1][3 - t] = 0;
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) ranks[i] = 0;
    barrier();
    // Each subgroup does the whole softmax: that is less than to meet for it.
    float most = logit_at(0), all = 0.0;
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) most = max(most, logit_at(i));
    most = subgroupMax(most);
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) all += exp(logit_at(i) - most);
    all = subgroupAdd(all);
    for (uint at = t; at < EXPERTS * SHARES; at += gl_WorkGroupSize.x) {
        uint i = at / SHARES, mine = keys[i / 4][i % 4], rank = 0;
        for (uint q = at % SHARES; q < QUADS; q += SHARES) {
            uvec4 other = keys[q];
            [[unroll]] for (uint j = 0; j < 4; j++) rank += uint(other[j] > mine || (other[j] == mine && 4 * q + j < i));
        }
        atomicAdd(ranks[i], rank);
    }
    barrier();
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) {
        uint rank = ranks[i];
        if (rank < USED) {
            chosen[rank] = i;
            weight_of[rank] = exp(logit_at(i) - most) / all;
        }
    }
    barrier();
    float sum = 0.0;
    for (uint k = 0; k < USED; k++) sum += weight_of[k];
    weights_sum = max(sum, LEAST_SUM);
}
